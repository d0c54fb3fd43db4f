"""Compare the loss of each of the first fine-tuning steps with Hugging Face's Trainer.

    python benchmarks/finetuning_steps.py --weights DIR --data DIR --peer-python PYTHON \
        [--tasks mrpc stsb snips-slots squad] [--steps 20 | --whole [--dropout]] [--seed 1]

Both sides start from the same weights, head included, and train on the batches of keras_bert,
without dropout and warm-up. So the losses are equal if tokens, targets, losses, the mean over a
batch, clipping, the learning rate, weight decay and AdamW are equal. Only rounding differs, and
grows from step to step.

`--whole` runs all epochs, with warm-up, and compares the scores. By then rounding has led to
different weights, so the scores differ by chance. With `--dropout`, the dropout masks differ too.
PYTHON has torch and transformers; see `peers/train.py`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from finetuning import examples_of, model_of
from peers import data
from peers.plan import CLIP_NORM, TASKS, WARMUP, WEIGHT_DECAY
from peers.results import append

DEFAULT = ("mrpc", "stsb", "snips-slots", "squad")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=DEFAULT)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--whole", action="store_true", help="run all epochs, not only --steps")
    parser.add_argument("--dropout", action="store_true", help="keep the model's dropout")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--results", help="the file that `finetuning_page.py` reads")
    options = parser.parse_args()
    for task in options.tasks:
        with tempfile.TemporaryDirectory() as folder:
            compared = compare(task, options, Path(folder))
        run = {"task": task, "seed": options.seed, "dropout": options.dropout, **compared}
        print(json.dumps(run), flush=True)
        if options.results:
            append(options.results, side="steps", **run)


def compare(task: str, options: argparse.Namespace, folder: Path) -> dict:
    """Returns the loss of each step on both sides and, for whole runs, the scores."""
    import keras

    import keras_bert as kb
    from keras_bert.finetuning import Recipe, evaluate, fine_tune
    from keras_bert.finetuning.batching import length_step, plan_batches
    from keras_bert.finetuning.jobs import job_of

    plan = TASKS[task]
    train, test = examples_of(task, options.data)
    size, epochs = plan["batch_size"], plan["epochs"] if options.whole else 1
    keras.utils.set_random_seed(options.seed)
    model = model_of(plan, options.weights, train)
    job = job_of(model)
    # Long texts are left out: the Trainer's windows overlap by another number of tokens.
    sample_ids, counts = np.unique(job.rows(model, train).sample_ids, return_counts=True)
    sample_ids = sample_ids[counts == 1]
    # An epoch has whole batches only, because the Trainer gets all epochs as one.
    count = len(sample_ids) // size * size if options.whole else options.steps * size
    chosen = sample_ids[data.chosen(len(sample_ids), count)].tolist()
    train = train.take(chosen)
    rows = job.rows(model, train)
    weights, head = folder / "model", None
    # transformers has no class with mean pooling, so no file format for its head.
    if plan.get("pooling") == "mean":
        kernel, bias = model.head.get_weights()
        weights, head = options.weights, {"weight": kernel.T.tolist(), "bias": bias.tolist()}
    else:
        kb.save(model, weights, format="huggingface")
    if not options.dropout:
        for layer in model._flatten_layers():
            if isinstance(layer, keras.layers.Dropout):
                layer.rate = 0.0

    recipe = Recipe(
        epochs=epochs,
        batch_size=size,
        learning_rate=plan["learning_rate"],
        warmup=WARMUP if options.whole else 0.0,
        weight_decay=WEIGHT_DECAY,
        global_clipnorm=CLIP_NORM,
        seed=options.seed,
    )
    targets = job.targets(model, train, rows)
    batches = plan_batches(rows, targets, batch_size=size, epochs=range(epochs), seed=options.seed)
    wanted = folder / "batches.json"
    wanted.write_text(
        json.dumps(
            {
                "head": head,
                "whole": options.whole,
                "dropout": options.dropout,
                "examples": chosen,
                "multiple": length_step(),
                "order": batches.elements.tolist(),
                "token_ids": [rows.row(i)["token_ids"].tolist() for i in range(len(rows))],
            }
        )
    )
    theirs = peer(task, options, weights, wanted)

    log, fit = make_log(), model.fit
    model.fit = lambda *args, callbacks, **kwargs: fit(*args, callbacks=[*callbacks, log], **kwargs)
    fine_tune(model, train, recipe=recipe, verbose=0)
    # Keras logs the mean loss of the epoch so far, weighted by the number of examples of a step.
    means = np.array(log.means).reshape(epochs, -1)
    weights = np.diff(batches.splits).reshape(epochs, -1)
    ours = np.diff(means * np.cumsum(weights, axis=1), prepend=0, axis=1) / weights
    run = {"ours": ours.ravel().tolist(), "theirs": theirs["losses"]}
    if options.whole:
        run["metrics"] = {"ours": evaluate(model, test), "theirs": theirs["metrics"]}
    return run


def peer(task: str, options: argparse.Namespace, weights: str | Path, wanted: Path) -> dict:
    script = Path(__file__).parent / "peers" / "steps.py"
    command = [options.peer_python, str(script), "--task", task, "--data", options.data]
    command += ["--weights", str(weights), "--batches", str(wanted)]
    command += ["--threads", str(options.threads), "--seed", str(options.seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{task} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def make_log():
    import keras

    class Log(keras.callbacks.Callback):
        """Notes the mean loss of the epoch after each step."""

        def __init__(self):
            super().__init__()
            self.means = []

        def on_train_batch_end(self, batch, logs=None):
            self.means.append(float(logs["loss"]))

    return Log()


if __name__ == "__main__":
    main()
