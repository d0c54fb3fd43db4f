import csv
import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.finetuning import Columns, label_names, read_examples, targets_of

# A line end in a field is read as a line feed; a file cannot hold half of a surrogate pair.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=30)
LABEL = st.text("abcXYZ012é", min_size=1, max_size=5)


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@given(rows=st.lists(st.tuples(TEXT, TEXT, LABEL), min_size=1, max_size=5))
def test_csv_round_trip(tmp_path_factory, rows):
    file = io.StringIO()
    csv.writer(file).writerows([("sentence1", "sentence2", "label"), *rows])
    path = write(tmp_path_factory.mktemp("csv"), "data.csv", file.getvalue())
    examples = read_examples(path)
    assert list(zip(examples.texts, examples.pairs, examples.labels, strict=True)) == rows


@given(rows=st.lists(st.tuples(TEXT, LABEL), min_size=1, max_size=5))
def test_jsonl_round_trip(tmp_path_factory, rows):
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    path = write(tmp_path_factory.mktemp("jsonl"), "data.jsonl", "\n".join(lines))
    examples = read_examples(path)
    assert list(zip(examples.texts, examples.labels, strict=True)) == rows
    assert examples.lines == tuple(range(1, len(rows) + 1))


@given(
    rows=st.lists(
        st.tuples(TEXT.filter(lambda text: not set(text) & set("\t\n")), LABEL),
        min_size=1,
        max_size=5,
    )
)
def test_tsv_round_trip(tmp_path_factory, rows):
    content = "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows])
    path = write(tmp_path_factory.mktemp("tsv"), "data.tsv", content)
    examples = read_examples(path)
    assert list(zip(examples.texts, examples.labels, strict=True)) == rows


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("glue.tsv", 'sentence\tlabel\nso "odd\t1\n', Columns("sentence", None, ("label",))),
        (
            "mrpc.tsv",
            "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\ta\tb\n",
            Columns("#1 String", "#2 String", ("Quality",)),
        ),
        (
            "stsb.tsv",
            "index\tsentence1\tsentence2\tscore\n0\ta\tb\t2.5\n",
            Columns("sentence1", "sentence2", ("score",)),
        ),
        (
            "qnli.csv",
            "question,sentence,label\na,b,yes\n",
            Columns("question", "sentence", ("label",)),
        ),
        ("odd.csv", "LABEL,Text,id\nx,a,1\n", Columns("Text", None, ("LABEL",))),
        ("log.ndjson", '{"prompt": "a", "class": 3}\n', Columns("prompt", None, ("class",))),
    ],
)
def test_columns_are_found_by_their_usual_names(tmp_path, name, content, columns):
    assert read_examples(write(tmp_path, name, content)).columns == columns


def test_columns_are_named(tmp_path):
    path = write(tmp_path, "data.csv", "wording,verdict,text\nhello,ok,zzz\n")
    examples = read_examples(path, Columns("wording", None, ("verdict",)))
    assert (examples.texts, examples.labels) == (("hello",), ("ok",))


def test_columns_without_header_go_by_position(tmp_path):
    two = read_examples(write(tmp_path, "two.csv", "hello,ok\nbye,no\n"), header=False)
    assert (two.texts, two.labels) == (("hello", "bye"), ("ok", "no"))
    three = read_examples(write(tmp_path, "three.tsv", "a\tb\tok\n"), header=False)
    assert (three.texts, three.pairs, three.labels) == (("a",), ("b",), ("ok",))
    path = write(tmp_path, "four.csv", "7,ok,x,hello\n")
    named = read_examples(path, Columns("4", None, ("2",)), header=False)
    assert (named.texts, named.labels) == (("hello",), ("ok",))


@pytest.mark.parametrize("labeled", [True, False])
def test_labels_are_no_texts(tmp_path, labeled):
    path = write(tmp_path, "two.csv", "question,answer\nis it?,yes\n")
    examples = read_examples(path, Columns(labels=("answer",)), labeled=labeled)
    assert (examples.texts, examples.pairs, examples.labels) == (("is it?",), None, ("yes",))
    path = write(tmp_path, "three.csv", "title,text,label\na,b,c\n")
    examples = read_examples(path, Columns(pair="text"), labeled=labeled)
    assert (examples.texts, examples.pairs, examples.labels) == (("a",), ("b",), ("c",))
    path = write(tmp_path, "none.csv", "hello,ok\n")
    examples = read_examples(path, header=False, labeled=labeled)
    assert (examples.texts, examples.pairs, examples.labels) == (("hello",), None, ("ok",))


def test_gzip_and_long_fields(tmp_path):
    content = gzip.compress(f"text,label\n{'x' * 300_000},a\n".encode())
    examples = read_examples(write(tmp_path, "data.csv.gz", content))
    assert len(examples.texts[0]) == 300_000


@pytest.mark.parametrize("content", ["text\nhello\nbye\n", "text,label\nhello,a\nbye,\n"])
def test_labels_are_optional_for_prediction(tmp_path, content):
    examples = read_examples(write(tmp_path, "data.csv", content), labeled=False)
    assert (examples.texts, examples.labels) == (("hello", "bye"), None)


def test_empty_texts_of_one_column_keep_their_places(tmp_path):
    path = write(tmp_path, "one.csv", '""\ntext\na\n""\n\nb\n')  # no text: before the header, \n
    assert read_examples(path, labeled=False).texts == ("a", "", "b")
    path = write(tmp_path, "two.csv", 'text,label\na,x\n""\nb,y\n')
    assert read_examples(path).texts == ("a", "b")


def test_not_a_number_is_no_label(tmp_path):
    path = write(tmp_path, "nan.jsonl", '{"text": "a", "label": NaN}\n{"text": "b", "label": 1}\n')
    with pytest.raises(InputError, match="line 1: the label is missing"):
        read_examples(path)


def test_several_labels(tmp_path):
    path = write(tmp_path, "cells.csv", "text,labels\na,x; y\nb,\nc,y\n")
    assert read_examples(path, separator=";").labels == (("x", "y"), (), ("y",))
    path = write(tmp_path, "list.csv", 'text,labels\na,"[""x"", ""y""]"\nb,[]\n')
    assert read_examples(path).labels == (("x", "y"), ())
    path = write(tmp_path, "python.csv", "text,labels\na,\"['x', 'y']\"\nb,[]\nc,\"['x', 3]\"\n")
    assert read_examples(path).labels == (("x", "y"), (), ("x", "3"))
    path = write(tmp_path, "names.csv", "text,label\na,[x]\nb,[y\n")
    assert read_examples(path).labels == ("[x]", "[y")
    path = write(tmp_path, "lists.jsonl", '{"text": "a", "labels": ["x", 2]}\n')
    assert read_examples(path).labels == (("x", "2"),)
    path = write(tmp_path, "columns.csv", "text,toxic,mild\na,1.0,0\nb,no,TRUE\n")
    examples = read_examples(path, Columns(labels=("toxic", "mild")))
    assert examples.labels == (("toxic",), ("mild",))
    assert label_names(examples, "multi_label") == ("toxic", "mild")
    assert targets_of(examples, ("toxic", "mild"), "multi_label").tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.csv", b"", "data.csv is empty"),
        ("data.csv", b"text,label\n", "has no examples: expected one in each line"),
        ("data.csv", b'""\n', "has no examples: expected one in each line"),
        ("data.csv", b"text,label\na,b\n\xff,c\n", "data.csv, line 3: byte 0xff"),
        ("data.csv", bytes(range(256)) * 40, "data.csv is a binary file"),
        ("data.csv", b"text,label\na,b\nc,\n", "line 3: the label is missing"),
        ("data.csv", b'text,label\n"a\nb",c\nd\n', "line 4: 1 fields, but the first line has 2"),
        ("data.csv", b"text,label\na,b,c\n", "quote fields that hold a comma"),
        ("data.csv", b'text,label\n"a"b,c\n', "line 2: .*check the quotes"),
        ("data.csv", b"text,text\na,b\n", "names the column 'text' twice"),
        ("data.csv", b"wording,label\na,b\n", "which column holds the text"),
        ("data.csv", b"text,verdict\na,b\n", "has no labels"),
        (
            "data.jsonl",
            b'{"text": "a", "label": "b"}\n{"text": "c"}\n',
            "line 2: the label is missing",
        ),
        (
            "data.jsonl",
            b'{"text": "a", "label": "b"}\n{"label": "c"}\n',
            "line 2: the example has no",
        ),
        ("data.jsonl", b'{"text": 3, "label": "b"}\n', "has 3, not text"),
        ("data.jsonl", b"{text: a}\n", "line 1: this is not JSON"),
        ("data.jsonl", b"[1, 2]\n", "line 1: expected an object"),
        (
            "data.jsonl",
            b'{"text": "a", "label": "b"}\n{"text": "a", "label": ["b"]}',
            "some labels are",
        ),
        ("data.xlsx", b"text\n", "no known ending"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read_examples(write(tmp_path, name, content))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns(text="texte"), "no column 'texte'. Did you mean 'text'"),
        (Columns(labels=("label", "id")), "line 2: 'label' is 'b'"),
    ],
)
def test_bad_columns(tmp_path, columns, message):
    path = write(tmp_path, "data.csv", "text,label,id\na,b,1\n")
    with pytest.raises(InputError, match=message):
        read_examples(path, columns)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_examples(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.csv", "text,label\na,x\nb\nc,\nd,y\n,\n"),
        (
            "data.jsonl",
            '{"text": "a", "label": "x"}\n{"text"\n{"text": "c"}\n'
            '{"text": "d", "label": "y"}\n{"label": "x"}\n',
        ),
    ],
)
def test_bad_rows_are_skipped_and_counted(tmp_path, caplog, name, content):
    path = write(tmp_path, name, content)
    with pytest.raises(InputError):
        read_examples(path)
    examples = read_examples(path, on_error="skip")
    assert (examples.texts, examples.labels) == (("a", "d"), ("x", "y"))
    assert "1 of 5 examples are skipped" in caplog.text
    assert "2 of 4 examples are skipped" in caplog.text
    assert f"{path}, line {4 if name == 'data.csv' else 3}: the label is missing" in caplog.text


def test_a_file_of_bad_rows_is_an_error(tmp_path):
    path = write(tmp_path, "data.csv", "text,label\na,\nb,\n")
    with pytest.raises(
        InputError, match="no example is left, all 2 have errors.*line 2: the label"
    ):
        read_examples(path, on_error="skip")
    with pytest.raises(InputError, match="on_error is 'ignore'"):
        read_examples(path, on_error="ignore")
