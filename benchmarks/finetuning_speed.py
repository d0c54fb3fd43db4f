"""Measure real tokens per second of fine-tuning on SST-2: keras_bert, the Trainer and KerasHub.

    python benchmarks/finetuning_speed.py --weights DIR --data DIR --peer-python PYTHON

All sides have the same weights, texts, batch size and precision. In every round, each side runs in
a process of its own, one after the other. It trains two epochs on the same examples. Only the
second epoch is measured, so tracing and earlier tokenizing do not count. KerasHub tokenizes during
the epoch, as in a user's `fit`.

Real tokens are tokens without padding. keras_bert and the Trainer put texts of similar length into
one batch, each in its own way. KerasHub pads all texts to one length: its default of 512, or the
length of the longest text. PYTHON has torch and transformers; see `peers/train.py`.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import interleaved_timing
from peers import data
from peers.clock import between, now
from peers.plan import CLIP_NORM, EPSILON, TASKS, WARMUP, WEIGHT_DECAY
from peers.results import append

PLAN = TASKS["sst2"]
KERAS_HUB_DEFAULT = 512
# With 512 positions for about 13 tokens, an example takes long. So fewer examples are measured.
SHARE_AT_DEFAULT = 32


POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
"""Keras' policy for each precision of the computations."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", required=True, help="directory of a model of transformers")
    parser.add_argument("--data", required=True, help="folder with sst2/train.tsv, sst2/dev.tsv")
    parser.add_argument("--peer-python", help="without it, the Trainer is left out")
    parser.add_argument("--examples", type=int, default=2560)
    parser.add_argument("--batch-size", type=int, default=PLAN["batch_size"])
    parser.add_argument("--dtype", choices=POLICIES, default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--sides", nargs="+", help="sides to measure; default: all")
    parser.add_argument("--results", help="the file that `finetuning_page.py` reads")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        measured = {"keras_bert": ours}.get(options.worker, keras_hub)(options)
        print(json.dumps(measured))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(options, commands(options, folder))


def commands(options: argparse.Namespace, folder: str) -> dict[str, list[str]]:
    """Returns the command of each side."""
    common = [
        *("--data", options.data, "--batch-size", str(options.batch_size)),
        *("--threads", str(options.threads), "--dtype", options.dtype),
    ]
    here = [sys.executable, __file__, *common]
    plain = ["--weights", options.weights, "--examples", str(options.examples)]
    preset = ["--weights", write_preset(options.weights, folder), "--examples"]
    few = str(options.examples // SHARE_AT_DEFAULT)
    peer = Path(__file__).parent / "peers" / "speed.py"
    texts = data.sample(data.load("sst2", options.data)[0], options.examples).texts
    longest = str(longest_of(options.weights, texts))
    found = {
        "keras_bert": [*here, *plain, "--worker", "keras_bert"],
        "transformers": [options.peer_python, str(peer), *common, *plain],
        f"keras_hub, {longest}": [*here, *preset, str(options.examples), "--worker", longest],
        f"keras_hub, {KERAS_HUB_DEFAULT}": [
            *(*here, *preset, few, "--worker", str(KERAS_HUB_DEFAULT))
        ],
    }
    left_out = () if options.peer_python else ("transformers",)
    return {
        side: command
        for side, command in found.items()
        if side not in left_out and (not options.sides or side.split(",")[0] in options.sides)
    }


def compare(options: argparse.Namespace, chosen: dict[str, list[str]]) -> None:
    runs = interleaved_timing.run_in_turns(chosen, options.rounds, options.threads)
    names = ("threads", "batch_size", "examples", "dtype")
    measured = {"runs": runs, **{name: getattr(options, name) for name in names}}
    print("\n".join(["", *table({"processors": os.cpu_count(), **measured})]))
    if options.results:
        append(options.results, side="speed", **measured)


def table(run: dict) -> list[str]:
    """Returns the table of one call."""
    rounds = len(run["runs"]["keras_bert"])
    return [
        f"{run['processors']} processors, {run['threads']} threads, batches of "
        f"{run['batch_size']}, {run['examples']} examples, {run.get('dtype', 'float32')}, "
        f"{rounds} rounds",
        "",
        *interleaved_timing.table(run["runs"]),
    ]


def ours(options: argparse.Namespace) -> dict[str, float]:
    """Measures `fine_tune`, with a clock as an additional callback."""
    interleaved_timing.use_threads(options.threads)
    import keras_bert as kb
    from keras_bert.finetuning import Recipe, TextExamples, fine_tune

    texts = data.sample(data.load("sst2", options.data)[0], options.examples)
    dtype = POLICIES[options.dtype]
    model = kb.load(options.weights, task="classifier", labels=["0", "1"], dtype=dtype)
    model.preprocessor = model.preprocessor.with_length(PLAN["length"])
    examples = TextExamples(
        path="train.tsv",
        lines=tuple(range(options.examples)),
        texts=tuple(texts.texts),
        labels=tuple(texts.labels),
    )
    recipe = Recipe(
        epochs=2,
        batch_size=options.batch_size,
        learning_rate=PLAN["learning_rate"],
        warmup=WARMUP,
        weight_decay=WEIGHT_DECAY,
        global_clipnorm=CLIP_NORM,
    )
    clock, fit = make_clock(), model.fit
    model.fit = lambda *args, callbacks, **kwargs: fit(
        *args, callbacks=[*callbacks, clock], **kwargs
    )
    fine_tune(model, examples, recipe=recipe, verbose=0)
    tokens = int(model.rows(examples.inputs).lengths.sum())
    return {"tokens": tokens, **between(*clock.times[1:])}


def keras_hub(options: argparse.Namespace) -> dict[str, float]:
    interleaved_timing.use_threads(options.threads)
    import keras
    import keras_hub

    keras.config.set_dtype_policy(POLICIES[options.dtype])
    texts = data.sample(data.load("sst2", options.data)[0], options.examples)
    models = keras_hub.models
    length = int(options.worker)
    preprocessor = models.BertTextClassifierPreprocessor.from_preset(
        options.weights, sequence_length=length
    )
    model = models.BertTextClassifier.from_preset(
        options.weights, num_classes=2, dropout=0.1, preprocessor=preprocessor
    )
    steps = 2 * -(-options.examples // options.batch_size)
    schedule = keras.optimizers.schedules.PolynomialDecay(PLAN["learning_rate"], steps, 0.0)
    model.compile(
        keras.optimizers.AdamW(
            schedule, weight_decay=WEIGHT_DECAY, epsilon=EPSILON, global_clipnorm=CLIP_NORM
        ),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    clock = make_clock()
    labels = [int(label) for label in texts.labels]
    model.fit(
        x=texts.texts,
        y=labels,
        batch_size=options.batch_size,
        epochs=2,
        callbacks=[clock],
        verbose=0,
    )
    # The preprocessor's mask counts the real tokens.
    tokens = int(preprocessor(texts.texts)["padding_mask"].numpy().sum())
    return {"tokens": tokens, **between(*clock.times[1:])}


def make_clock():
    import keras

    class Clock(keras.callbacks.Callback):
        """Notes when each epoch begins and when the last one ends."""

        def __init__(self):
            super().__init__()
            self.times = []

        def on_epoch_begin(self, epoch, logs=None):
            self.times.append(now())

        def on_train_end(self, logs=None):
            self.times.append(now())

    return Clock()


def write_preset(weights: str, folder: str) -> str:
    """Writes the weights as a preset of KerasHub, whose BERT always has the approximate GELU."""
    import keras_bert as kb

    preset = str(Path(folder) / "preset")
    encoder = kb.load(weights, task="encoder")
    approximate = kb.Encoder(encoder.config.replace(activation="gelu_tanh"))
    approximate.set_weights(encoder.get_weights())
    approximate.preprocessor = encoder.preprocessor
    kb.save(approximate, preset, format="keras-hub")
    return preset


def longest_of(weights: str, texts: list[str]) -> int:
    import keras_bert as kb

    return int(kb.load(weights, task="encoder").preprocessor.rows(texts).lengths.max())


if __name__ == "__main__":
    main()
