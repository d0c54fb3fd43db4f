import collections
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.finetuning import hold_out, read_conll, read_tagged

WORD = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=6
)
TAG = st.sampled_from(["O", "B-PER", "I-PER", "NN"])


def write(folder, name, content):
    path = folder / name
    if isinstance(content, list):
        content = "\n".join(json.dumps(row) for row in content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def words(examples, index):
    return [examples.texts[index][start:end] for start, end in examples.words[index]]


@given(
    sentences=st.lists(
        st.lists(st.tuples(WORD, TAG), min_size=1, max_size=5), min_size=1, max_size=5
    ),
    separator=st.sampled_from(["\t", " "]),
)
def test_conll_round_trip(tmp_path_factory, sentences, separator):
    lines = ["\n".join(f"{word}{separator}{tag}" for word, tag in s) for s in sentences]
    path = write(tmp_path_factory.mktemp("conll"), "data.conll", "\n\n".join(lines) + "\n")
    examples = read_conll(path)
    assert examples.tags == tuple(tuple(tag for _, tag in s) for s in sentences)
    for index, sentence in enumerate(sentences):
        assert words(examples, index) == [word for word, _ in sentence]
        assert examples.texts[index] == " ".join(words(examples, index))
    assert list(examples.lines) == [
        1 + sum(len(s) + 1 for s in sentences[:index]) for index in range(len(sentences))
    ]


def test_conll_2003(tmp_path):
    path = write(
        tmp_path,
        "eng.train",
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n"
        "Ada NNP I-NP I-PER\nBob NNP B-NP B-PER\n-DOCSTART- -X- O O\n\n\nEve NNP I-NP I-PER\n",
    )
    examples = read_conll(path)
    assert examples.tags == (("I-ORG", "O"), ("I-PER", "B-PER"), ("I-PER",))
    assert examples.groups == (1, 1, 2)
    assert examples.lines == (3, 6, 11)
    assert examples.place(1) == f"{path}, line 6"
    assert read_conll(path, tag_column=1).tags[0] == ("NNP", "VBZ")
    assert read_conll(path, word_column=1, tag_column=2).texts[0] == "NNP VBZ"
    assert read_conll(path, scheme="iob2").tags[:2] == (("B-ORG", "O"), ("B-PER", "B-PER"))
    assert read_conll(path, scheme="bioes").tags[:2] == (("S-ORG", "O"), ("S-PER", "S-PER"))


def test_conll_quirks(tmp_path):
    content = "\ufeffa \tO\r\n\t\r\n\u00a0\tO\n#\tO\n# \tB-x\n\u2028x y\tI-x\n\n\n"
    examples = read_conll(write(tmp_path, "data.conll", content))
    assert [words(examples, index) for index in range(2)] == [
        ["a"],
        ["\u00a0", "#", "#", "\u2028x y"],
    ]
    assert examples.tags == (("O",), ("O", "O", "B-x", "I-x"))
    content = "# text = a\n# id = 7\na\tX\n#\tY\n\n# text = b\nb\tZ\n"
    examples = read_conll(write(tmp_path, "data.conllu", content), comment="# ")
    assert (examples.texts, examples.tags) == (("a #", "b"), (("X", "Y"), ("Z",)))
    content = "1-2\tdu\t_\n1\tde\tADP\n2\tle\tDET\n2.1\tx\t_\n3\tpain\tNOUN\n"
    examples = read_conll(write(tmp_path, "french.conllu", content), word_column=1)
    assert (examples.texts, examples.tags) == (("de le pain",), (("ADP", "DET", "NOUN"),))
    spaces = read_conll(write(tmp_path, "data.txt", "a   O\nb O \n"))
    assert (spaces.texts, spaces.tags) == (("a b",), (("O", "O"),))


def test_conll_without_tags(tmp_path):
    path = write(tmp_path, "data.txt", "a\nb\n\nc\n")
    examples = read_conll(path, labeled=False)
    assert (examples.texts, examples.tags, examples.groups) == (("a b", "c"), None, None)
    with pytest.raises(InputError, match="data.txt, line 1: the word has no tag"):
        read_conll(path)
    path = write(tmp_path, "half.txt", "a\tX\n\nb\t\n")
    assert read_conll(path, labeled=False).tags is None
    assert read_conll(write(tmp_path, "all.txt", "a\tX\n"), labeled=False).tags == (("X",),)


def test_bad_sentences_are_skipped(tmp_path, caplog):
    path = write(tmp_path, "data.conll", "a\tO\n\nb\tO\nc\n\nd\t\n\ne\tO\n")
    with pytest.raises(InputError, match="line 4: 1 columns, but line 1 has 2"):
        read_conll(path)
    examples = read_conll(path, on_error="skip")
    assert (examples.texts, examples.lines) == (("a", "e"), (1, 8))
    assert "2 of 4 examples are skipped" in caplog.text
    assert "line 6: the tag is missing in 'd\\t'" in caplog.text


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", {}, "is empty"),
        ("-DOCSTART- O\n\n", {}, "has no sentences"),
        ("a O\n", {"tag_column": 2}, "has no column 2: line 1 has 2"),
        ("a O\n", {"word_column": -3}, "has no column -3"),
        ("a O\n", {"labeled": False, "tag_column": 5}, "has no column 5"),
        ("a X O\nb O\n", {}, "line 2: 2 columns, but line 1 has 3"),
        ("a\tO\n\tO\n", {}, "line 2: the word is missing"),
        ("a O\n", {"scheme": "bilou"}, "no scheme 'bilou'"),
        (b"a O\n\xff O\n", {}, "line 2: byte 0xff"),
    ],
)
def test_bad_conll(tmp_path, content, arguments, message):
    with pytest.raises(InputError, match=message):
        read_conll(write(tmp_path, "data.conll", content), **arguments)


def test_json_lines(tmp_path):
    text = "Ada Lovelace met Bob (in Paris)."
    entities = [
        {"start": 25, "end": 30, "label": "LOC", "text": "Paris"},
        {"start": 0, "end": 12, "label": "PER"},
        [17, 20, "PER"],
    ]
    rows = [
        {"tokens": ["EU", "rejects"], "ner_tags": ["I-ORG", "O"]},
        {"text": text, "entities": entities},
        {"tokens": [], "tags": []},
        {"text": "", "entities": []},
    ]
    examples = read_tagged(write(tmp_path, "data.jsonl", rows), scheme="bioes")
    assert examples.texts == ("EU rejects", text, "", "")
    assert words(examples, 1) == ["Ada", "Lovelace", "met", "Bob", "(", "in", "Paris", ")", "."]
    tags = ("B-PER", "E-PER", "O", "S-PER", "O", "O", "S-LOC", "O", "O")
    assert examples.tags == (("S-ORG", "O"), tags, (), ())


def test_json_lines_without_tags(tmp_path):
    path = write(tmp_path, "data.jsonl", [{"text": "a b"}, {"words": ["c"], "tags": ["O"]}])
    examples = read_tagged(path, labeled=False)
    assert (words(examples, 0), words(examples, 1), examples.tags) == (["a", "b"], ["c"], None)
    with pytest.raises(InputError, match="line 1: the tags are missing"):
        read_tagged(path)
    with pytest.raises(InputError, match="tag_column are for CoNLL files"):
        read_tagged(path, tag_column=1)
    with pytest.raises(InputError, match="no format 'csv' of tagged words"):
        read_tagged(path, format="csv")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "1 tags for 2 words"),
        ({"tokens": ["a"], "tags": [1]}, r"the tags are \[1\], but must be a list of strings"),
        ({"tokens": ["a", " "], "tags": ["O", "O"]}, "the words are"),
        ({"tags": ["O"]}, 'expected "tokens"'),
        ({"text": "a", "entities": {}}, '"entities" is {}'),
        ({"text": "a", "entities": [[0, 2, "X"]]}, "inside the text of 1 characters"),
        ({"text": "a", "entities": [{"start": 0, "end": 1}]}, 'with "start", "end" and "label"'),
        ({"text": "ab c", "entities": [[1, 4, "X"]]}, "'b c' .X, characters 1 to 4. does not"),
        ({"text": "ab cd", "entities": [[0, 4, "X"]]}, "does not begin and end where words do"),
        ({"text": "a b", "entities": [[0, 3, "X"], [2, 3, "Y"]]}, "'b' .Y.* overlaps another"),
        (
            {"text": "a b", "entities": [{"start": 0, "end": 1, "label": "X", "text": "b"}]},
            "'b' is not at its place; characters 0 to 1 are 'a'",
        ),
    ],
)
def test_bad_json_lines(tmp_path, row, message, caplog):
    path = write(tmp_path, "data.jsonl", [{"tokens": ["a"], "tags": ["O"]}, row])
    with pytest.raises(InputError, match=message) as error:
        read_tagged(path)
    assert f"{path}, line 2" in str(error.value)
    assert len(read_tagged(path, on_error="skip")) == 1
    assert "1 of 2 examples are skipped" in caplog.text


def test_a_text_of_100_000_words(tmp_path):
    path = write(tmp_path, "long.jsonl", [{"tokens": ["word"] * 100_000, "tags": ["O"] * 100_000}])
    examples = read_tagged(path)
    assert words(examples, 0)[-1] == "word"


@pytest.mark.private_data
def test_wikigold(shared_data):
    examples = read_tagged(shared_data / "datasets" / "wikigold" / "wikigold.conll.txt")
    counts = collections.Counter(tag for tags in examples.tags for tag in tags)
    assert counts["I-LOC"] == 1447
    assert sum(counts.values()) == 32721 - 145 + 1447 + 1392 + 1958 + 1634
    assert set(counts) == {"O", "I-LOC", "I-MISC", "I-ORG", "I-PER"}
    left, held = hold_out(examples, 0.2)
    assert not set(left.groups) & set(held.groups)


@pytest.mark.private_data
@pytest.mark.parametrize(
    ("name", "sentences", "people"),
    [
        ("wnut17train.conll", 3394, 660),
        ("emerging.dev.conll", 1009, 470),
        ("emerging.test.annotated", 1287, 429),
    ],
)
def test_wnut17(shared_data, name, sentences, people):
    examples = read_tagged(shared_data / "datasets" / "wnut17" / name)
    assert len(examples) == sentences
    assert sum(tags.count("B-person") for tags in examples.tags) == people
