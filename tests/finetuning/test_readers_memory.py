"""Examples of DataFrames, `datasets.Dataset`, `tf.data`, Parquet files and other tables."""

import datasets
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.finetuning import Columns, read, read_examples

TEXTS, LABELS = ("a fine film", "", "dull", "no label"), ("good", "good", "bad", None)
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
COLUMNS = {"text": list(TEXTS), "label": list(LABELS)}
TF_COLUMNS = COLUMNS | {"label": ["good", "good", "bad", ""]}


class Polars:
    """The only method of a Polars DataFrame that is used."""

    def to_dicts(self):
        return ROWS


def parquet(tmp_path):
    pd.DataFrame(COLUMNS).to_parquet(tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


TABLES = {
    "pandas": lambda _: pd.DataFrame(COLUMNS, index=[7, 7, 8, 9]),
    "pandas with the type category": lambda _: pd.DataFrame(COLUMNS).astype({"label": "category"}),
    "polars": lambda _: Polars(),
    "datasets": lambda _: datasets.Dataset.from_dict(COLUMNS),
    "datasets, streamed": lambda _: datasets.Dataset.from_dict(COLUMNS).to_iterable_dataset(),
    "columns": lambda _: COLUMNS,
    "arrays": lambda _: {name: np.array(column, object) for name, column in COLUMNS.items()},
    "dictionaries": lambda _: ROWS,
    "generator": lambda _: (row for row in ROWS),
    "tf.data": lambda _: tf.data.Dataset.from_tensor_slices(TF_COLUMNS),
    "parquet": parquet,
}


@pytest.mark.parametrize("name", TABLES)
def test_texts_and_labels(name, tmp_path):
    examples = read("classifier", TABLES[name](tmp_path), on_error="skip")
    assert examples.texts == TEXTS[:3]
    assert examples.labels == LABELS[:3]
    assert examples.lines == (1, 2, 3)
    with pytest.raises(InputError, match=r", row 4: the label is missing \(column 'label'\)"):
        read("classifier", TABLES[name](tmp_path))


def test_other_columns_do_not_matter():
    """A column has the name of an attribute of `datasets.Dataset`, one holds no text."""
    columns = COLUMNS | {"features": [b"\xff"] * 4}
    assert read_examples(pd.DataFrame(columns), labeled=False).texts == TEXTS


def test_named_columns_and_pairs():
    frame = pd.DataFrame({"What": ["a"], "And": ["b"], "is": [1], "may be": [0]})
    examples = read_examples(frame, Columns(text="What", pair="And", labels=("is", "may be")))
    assert (examples.texts, examples.pairs, examples.labels) == (("a",), ("b",), (("is",),))
    message = "DataFrame has no column 'Waht'. Did you mean 'What'"
    with pytest.raises(InputError, match=message):
        read("classifier", frame, text_column="Waht")


def test_ids_of_labels_become_names():
    """As in GLUE on the hub, where -1 stands for an unknown label."""
    data = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]})
    data = data.cast_column("label", datasets.ClassLabel(names=["no", "yes"]))
    assert read("classifier", data, on_error="skip").labels == ("yes", "no")


def test_ids_of_tags_become_names():
    """As in CoNLL-2003 on the hub."""
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER"]))
    features = datasets.Features(
        {"tokens": datasets.Sequence(datasets.Value("string")), "tags": tags}
    )
    data = datasets.Dataset.from_dict(
        {"tokens": [["So", "Ann"], ["No"]], "tags": [[0, 1], [0]]}, features
    )
    for table in (data, data.to_pandas().assign(tags=[["O", "B-PER"], ["O"]])):
        examples = read("token_classifier", table)
        assert examples.texts == ("So Ann", "No")
        assert examples.tags == (("O", "B-PER"), ("O",))
        assert examples.place(1).endswith(", row 2")


def test_questions_as_on_the_hub():
    answers = [{"text": ["Ann"], "answer_start": [0]}, {"text": [], "answer_start": []}]
    columns = {
        "id": ["x", "y"],
        "question": ["Who?", "When?"],
        "context": ["Ann came."] * 2,
        "answers": answers,
    }
    for table in (datasets.Dataset.from_dict(columns), pd.DataFrame(columns)):
        examples = read("span_classifier", table)
        assert examples.ids == ("x", "y")
        assert examples.answers == ((("Ann", 0),), ())


def test_choices():
    choices = [np.array(["one", "two"])]
    frame = pd.DataFrame({"question": ["1 + 1?"], "choices": choices, "answer": [1]})
    examples = read("multiple_choice", frame)
    assert (examples.choices, examples.labels) == ((("one", "two"),), (1,))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["a", "b"], "Row 1 is a str, but must be a dictionary"),
        (7, "Examples are read from a file or a table, not from a int"),
        ([], "list has no examples: expected one in each row"),
        ({"text": ["a"], "label": ["x", "y"]}, "columns have 1 to 2 rows"),
        ([{"text": 3, "label": "x"}], "list, row 1: the example has 3, not text, as 'text'"),
        ([{"text": float("nan"), "label": "x"}], "list, row 1: the example has no 'text'"),
    ],
    ids=["texts", "number", "nothing", "lengths", "type", "nan"],
)
def test_bad_tables(data, message):
    with pytest.raises(InputError, match=message):
        read("classifier", data)


def test_a_damaged_parquet_file(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    for name in ("a.parquet", "missing.parquet"):
        with pytest.raises(InputError, match=f"{name} is not a readable Parquet file"):
            read("classifier", tmp_path / name)
