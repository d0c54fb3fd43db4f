"""The nine tasks of GLUE, from their files or from TensorFlow Datasets.

Wang et al. (2018), arXiv:1804.07461. Files and columns are those of gluebenchmark.com.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_bert.errors import InputError, closest
from keras_bert.finetuning.examples import Columns, TextExamples
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.finetuning.readers.tables import read_table
from keras_bert.finetuning.readers.texts import read_examples

_FILES = {"train": "train.tsv", "validation": "dev.tsv", "test": "test.tsv"}
_MNLI_FILES = {
    "train": "train.tsv",
    "validation_matched": "dev_matched.tsv",
    "validation_mismatched": "dev_mismatched.tsv",
    "test_matched": "test_matched.tsv",
    "test_mismatched": "test_mismatched.tsv",
}
_YES_NO = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """Files, columns and metrics of a task of GLUE.

    Args:
        folder: usual name of the task's directory.
        columns: columns of the task's files.
        features: names of the text, or of both texts, in TensorFlow Datasets.
        labels: labels in the task's files, in the order of their ids in TensorFlow Datasets. Empty
            if the labels are numbers.
        metrics: names of the official metrics in `keras_bert.metrics`. "f1" is the F1 of the
            label "1".
        files: name of the file of each split.
        header: whether files with labels name their columns.
    """

    folder: str
    columns: Columns
    features: tuple[str, ...]
    labels: tuple[str, ...] = _YES_NO
    metrics: tuple[str, ...] = ("accuracy",)
    files: Mapping[str, str] = dataclasses.field(default_factory=lambda: _FILES)
    header: bool = True

    @property
    def problem_type(self) -> str:
        """Type of problem for a `SequenceClassifier`."""
        return "single_label" if self.labels else "regression"


def _pair(first: str, second: str, label: str = "label") -> Columns:
    return Columns(first, second, (label,))


_SENTENCES = ("sentence1", "sentence2")

GLUE: dict[str, GlueTask] = {
    "cola": GlueTask(
        "CoLA", Columns("4", None, ("2",)), ("sentence",), metrics=("matthews",), header=False
    ),
    "sst2": GlueTask("SST-2", Columns("sentence", None, ("label",)), ("sentence",)),
    "mrpc": GlueTask(
        "MRPC",
        _pair("#1 String", "#2 String", "Quality"),
        _SENTENCES,
        metrics=("accuracy", "f1"),
    ),
    "stsb": GlueTask(
        "STS-B",
        _pair(*_SENTENCES, "score"),
        _SENTENCES,
        labels=(),
        metrics=("pearson", "spearman"),
    ),
    "qqp": GlueTask(
        "QQP",
        _pair("question1", "question2", "is_duplicate"),
        ("question1", "question2"),
        metrics=("accuracy", "f1"),
    ),
    "mnli": GlueTask(
        "MNLI",
        _pair(*_SENTENCES, "gold_label"),
        ("premise", "hypothesis"),
        labels=("entailment", "neutral", "contradiction"),
        files=_MNLI_FILES,
    ),
    "qnli": GlueTask(
        "QNLI", _pair("question", "sentence"), ("question", "sentence"), labels=_ENTAILMENT
    ),
    "rte": GlueTask("RTE", _pair(*_SENTENCES), _SENTENCES, labels=_ENTAILMENT),
    "wnli": GlueTask("WNLI", _pair(*_SENTENCES), _SENTENCES),
}
"""Tasks by name, such as "sst2": folder, files, columns, labels and metrics."""


def read_glue(
    name: str,
    split: str = "train",
    folder: str | os.PathLike | None = None,
    *,
    on_error: OnError = "fail",
) -> TextExamples:
    """Reads a split of a GLUE task. Labels are the same strings for files and data sets.

    Args:
        name: name of the task, a key of `GLUE`.
        split: "train", "validation" or "test". "test" has no labels. "mnli" has two splits each
            for validation and test: "validation_matched", "validation_mismatched" and so on.
        folder: directory of the task or of all tasks. By default, the task comes from the package
            tensorflow_datasets, which downloads it if necessary.
        on_error: "fail" raises an error at the first row that cannot be used. "skip" leaves such
            rows out and logs their number. Some lines of QQP's train.tsv lack columns.

    Raises:
        InputError: if there is no such task or split, the package is not installed, or a row
            cannot be used; the message names the file and the line.
    """
    if name not in GLUE:
        raise InputError(
            f"GLUE has no task {name!r}.{closest(name, GLUE)} It has {', '.join(GLUE)}."
        )
    task = GLUE[name]
    if split not in task.files:
        raise InputError(
            f"GLUE's task {name} has no split {split!r}: give {', '.join(task.files)}."
        )
    if folder is None:
        examples = _from_tensorflow_datasets(name, split)
    else:
        folder = Path(folder)
        inner = folder / task.folder
        examples = _from_folder(task, split, inner if inner.is_dir() else folder, on_error)
    if examples.labels is None or not task.labels:
        return examples

    def known(index: int) -> int:
        label = (examples.labels or ())[index]
        if label not in task.labels:
            raise InputError(
                f"{examples.place(index)}: the label is {label!r}, but the labels of {name} are "
                f"{', '.join(task.labels)}."
            )
        return index

    return examples.take(read_each(known, range(len(examples)), examples.path, on_error))


def _from_folder(task: GlueTask, split: str, folder: Path, on_error: OnError) -> TextExamples:
    path = folder / task.files[split]
    if task is GLUE["mrpc"] and not path.exists():
        return _from_microsoft(folder, split, on_error)
    if not split.startswith("test"):
        return read_examples(
            path, task.columns, format="tsv", header=task.header, on_error=on_error
        )
    # Test files have a header, even in CoLA, but no labels.
    columns = dataclasses.replace(task.columns, labels=())
    if not task.header:
        columns = Columns(task.features[0])
    examples = read_examples(path, columns, format="tsv", labeled=False, on_error=on_error)
    return dataclasses.replace(examples, labels=None)


def _from_microsoft(folder: Path, split: str, on_error: OnError) -> TextExamples:
    """Reads Microsoft's files of MRPC. GLUE's dev_ids.tsv lists the pairs for validation."""
    path = folder / f"msr_paraphrase_{'test' if split == 'test' else 'train'}.txt"
    examples = read_examples(path, GLUE["mrpc"].columns, format="tsv", on_error=on_error)
    listed = folder / "dev_ids.tsv"
    if split == "test" or (split == "train" and not listed.exists()):
        return examples
    table = read_table(listed, format="tsv", header=False)
    held_out = {tuple(row.values.values()) for row in table.rows}
    rows = read_table(path, format="tsv", on_error=on_error).rows
    lines = {row.line for row in rows if (row.values["#1 ID"], row.values["#2 ID"]) in held_out}
    return examples.take(
        [i for i, line in enumerate(examples.lines) if (line in lines) == (split == "validation")]
    )


def _from_tensorflow_datasets(name: str, split: str) -> TextExamples:
    task = GLUE[name]
    rows = list(_load(f"glue/{name}", split))
    first, second = task.features[0], task.features[1] if len(task.features) > 1 else None
    labeled = not split.startswith("test")
    return TextExamples(
        path=f"glue/{name}",
        lines=tuple(range(1, len(rows) + 1)),
        unit=f"{split} example",
        texts=tuple(row[first].decode() for row in rows),
        pairs=None if second is None else tuple(row[second].decode() for row in rows),
        labels=tuple(_label(task, row["label"]) for row in rows) if labeled else None,
        columns=Columns(first, second, ("label",)),
    )


def _label(task: GlueTask, value: Any) -> str:
    if not task.labels:
        return str(float(value))
    return task.labels[value] if 0 <= value < len(task.labels) else str(value)


def _load(name: str, split: str) -> Iterable[Mapping[str, Any]]:
    try:
        import tensorflow_datasets
    except ImportError:
        raise InputError(
            f"{name} needs the package tensorflow_datasets, which is not installed; install it, or "
            "give the folder that has the files."
        ) from None
    return tensorflow_datasets.as_numpy(tensorflow_datasets.load(name, split=split))
