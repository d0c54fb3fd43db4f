"""Whether the first steps of fine-tuning equal those of Hugging Face's Trainer, loss by loss.

    python benchmarks/finetuning_steps.py --weights DIR --data DIR --peer-python PYTHON \
        [--tasks mrpc stsb snips-slots squad] [--steps 20]

Both sides start from the same weights, head included, and take the same batches, which are ours,
length buckets and all, without dropout and warm-up. What is left are tokens, targets, losses, the
mean over a batch, clipping, the learning rate, weight decay and AdamW; and how sums are rounded,
which grows from step to step. PYTHON has torch and transformers; see `peers/train.py`.
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
from peers.plan import CLIP_NORM, TASKS, WEIGHT_DECAY
from peers.results import append

DEFAULT = ("mrpc", "stsb", "snips-slots", "squad")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=DEFAULT)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--results", help="the file that `finetuning_page.py` reads")
    options = parser.parse_args()
    for task in options.tasks:
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = losses(task, options, Path(folder))
        run = {"task": task, "ours": list(ours), "theirs": list(theirs)}
        print(json.dumps(run), flush=True)
        if options.results:
            append(options.results, side="steps", **run)


def losses(task: str, options: argparse.Namespace, folder: Path) -> list[np.ndarray]:
    """Of each step, ours and theirs."""
    import keras

    import keras_bert as kb
    from keras_bert.finetuning import Recipe, fine_tune
    from keras_bert.finetuning.batching import length_step, make_plan
    from keras_bert.finetuning.jobs import job_of

    plan = TASKS[task]
    train, _ = examples_of(task, options.data)
    chosen = data.chosen(len(train), options.steps * plan["batch_size"])
    keras.utils.set_random_seed(1)
    model = model_of(plan, options.weights, train)
    job, train = job_of(model), train.take(chosen)
    rows = job.rows(model, train)
    if len(rows) > len(train):  # a text in windows; theirs overlap by another number of tokens
        owners, counts = np.unique(rows.owners, return_counts=True)
        kept = owners[counts == 1]
        chosen, train = [chosen[index] for index in kept], train.take(kept)
        rows = job.rows(model, train)
    weights, head = folder / "model", None
    if plan.get("pooling") == "mean":  # of which transformers has no class, so no format either
        kernel, bias = model.head.get_weights()
        weights, head = options.weights, {"weight": kernel.T.tolist(), "bias": bias.tolist()}
    else:
        kb.save(model, weights, format="huggingface")
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0

    recipe = Recipe(
        epochs=1,
        batch_size=plan["batch_size"],
        learning_rate=plan["learning_rate"],
        warmup=0.0,
        weight_decay=WEIGHT_DECAY,
        clip_norm=CLIP_NORM,
        seed=1,
    )
    targets = job.targets(model, train, rows)
    batches = make_plan(rows, targets, batch_size=plan["batch_size"], epochs=range(1), seed=1)
    wanted = folder / "batches.json"
    wanted.write_text(
        json.dumps(
            {
                "head": head,
                "examples": [int(index) for index in chosen],
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
    # Keras shows the mean of the steps so far, each with the weight of its examples.
    weights = np.diff(batches.splits)
    ours = np.diff(np.array(log.means) * np.cumsum(weights), prepend=0) / weights
    return [ours, np.array(theirs)]


def peer(task: str, options: argparse.Namespace, weights: str | Path, wanted: Path) -> list[float]:
    script = Path(__file__).parent / "peers" / "steps.py"
    command = [options.peer_python, str(script), "--task", task, "--data", options.data]
    command += ["--weights", str(weights), "--batches", str(wanted)]
    command += ["--threads", str(options.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{task} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def make_log():
    import keras

    class Log(keras.callbacks.Callback):
        """The mean loss after each step."""

        def __init__(self):
            super().__init__()
            self.means = []

        def on_train_batch_end(self, batch, logs=None):
            self.means.append(float(logs["loss"]))

    return Log()


if __name__ == "__main__":
    main()
