"""Families x tasks x formats: the largest difference of each artifact to Keras.

    python -m tests.export.matrix                              # small models, random weights
    python -m tests.export.matrix --families albert --tasks span_classifier
    python -m tests.export.matrix --model DIRECTORY            # one real model, its own task
    python -m tests.export.matrix --model DIRECTORY --tasks classifier,embedder  # with new heads

It prints a table in Markdown and ends with 1 if a difference is larger than 1e-5 (times the
largest value, where that is more than 1), or a choice is another one.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import keras_bert as kb
from keras_bert.export.artifact_checks import (
    FLOAT32_TOLERANCE,
    ExportError,
    compare,
    difference,
    reference,
)
from keras_bert.export.signatures import input_names
from keras_bert.families import FAMILIES as ALL_FAMILIES

from .conftest import TOKENS, make_model, random_ids
from .test_formats import FORMATS, SMALL

FAMILIES = {  # to what is special about them, at a small size
    "bert": {},
    "roberta": {},
    "distilbert": {},
    "albert": {"embedding_size": 8, "num_layers": 4, "layer_groups": 2},
    "electra": {"embedding_size": 8},
    "deberta-v2": {"convolution_size": 3, "position_buckets": 16},
    "mpnet": {},
    "nomic_bert": {},
    "modernbert": {"num_layers": 2, "attention_window": 2, "global_interval": 2},
    "eurobert": {"num_key_value_heads": 1},
}
TASKS: dict[str, dict[str, Any]] = {  # to the arguments of their models
    "classifier": {"num_labels": 3},
    "token_classifier": {"labels": ["O", "B-A", "I-A"], "crf": True, "scheme": "iob2"},
    "span_classifier": {},
    "masked_lm": {},
    "embedder": {},
    "encoder": {},
}
SHAPES = ((1, 2), (3, 12), (2, 32))
REAL_SHAPES = ((1, 16), (4, 128))


def small_models(families: Sequence[str], tasks: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """Family, task and model."""
    tokenizer = kb.WordPiece(kb.Vocabulary(TOKENS))
    for family in families:
        for task in tasks:
            config = ALL_FAMILIES[family].TRAITS | SMALL | FAMILIES[family]
            model = make_model(task, TASKS[task], kb.Preprocessor(tokenizer, 16), **config)
            yield family, task, model


def real_models(directory: str, tasks: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """The directory's name, task and model; without tasks, its own."""
    for task in tasks or (None,):
        model = kb.load(directory, task=task, **(TASKS[task] if task else {}))
        yield Path(directory).name, task or type(model).__name__, model


def differences(model: Any, shapes: Sequence[tuple[int, int]]) -> dict[str, tuple[float, bool]]:
    """For each format the largest difference, and whether it is small enough."""
    found = {}
    for kind, (write, load) in FORMATS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"a.{kind}"
            write(model, path)
            run = load(path)
            results = [_difference(model, run, *shape) for shape in shapes]
        found[kind] = (max(result[0] for result in results), all(result[1] for result in results))
    return found


def _difference(model: Any, run: Any, batch: int, length: int) -> tuple[float, bool]:
    ids = random_ids(batch, length, model.config.vocabulary_size, seed=length)
    ids = {name: ids[name] for name in input_names(model)}
    expected = reference(model, ids)
    actual = {name: np.asarray(value) for name, value in run(ids).items()}
    try:
        compare("artifact", expected, actual, FLOAT32_TOLERANCE)
    except ExportError:
        return difference(expected, actual), False
    return difference(expected, actual), True


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 0 if all differences are small."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--tasks")
    parser.add_argument("--model")
    options = parser.parse_args(arguments)
    tasks = options.tasks.split(",") if options.tasks else []
    if options.model:
        models, shapes = real_models(options.model, tasks), REAL_SHAPES
    else:
        models, shapes = small_models(options.families.split(","), tasks or [*TASKS]), SHAPES
    print(f"| model | task | {' | '.join(FORMATS)} |\n|---|---|{'--:|' * len(FORMATS)}")
    right = True
    for name, task, model in models:
        found = differences(model, shapes)
        right = right and all(passes for _, passes in found.values())
        cells = [
            f"{value:.1e}{'' if passes else ' **too large**'}" for value, passes in found.values()
        ]
        print(f"| {name} | {task} | {' | '.join(cells)} |", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
