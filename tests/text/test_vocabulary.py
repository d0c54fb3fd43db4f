import pytest

from keras_bert.errors import InputError
from keras_bert.text.vocabulary import Vocabulary, is_continuation

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_ids_and_roles():
    vocabulary = Vocabulary([*SPECIAL, "a", "##a"])
    assert len(vocabulary) == 7
    assert vocabulary.id_of("##a") == 6
    assert "a" in vocabulary
    assert "b" not in vocabulary
    assert vocabulary.special_ids == (0, 1, 2, 3, 4)
    ids = ("pad_id", "unknown_id", "cls_id", "separator_id", "mask_id")
    assert [getattr(vocabulary, name) for name in ids] == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="'b' is not one of the vocabulary's 7 tokens"):
        vocabulary.id_of("b")


def test_is_frozen_and_compares_by_value():
    vocabulary = Vocabulary(SPECIAL)
    assert vocabulary == Vocabulary(tuple(SPECIAL))
    assert hash(vocabulary) == hash(Vocabulary(SPECIAL))
    with pytest.raises(AttributeError):
        vocabulary.tokens = ()


def test_other_special_tokens():
    tokens = ["<s>", "</s>", "<pad>", "<unk>", "<mask>"]
    roles = {"pad": "<pad>", "unknown": "<unk>", "cls": "<s>", "separator": "</s>"}
    vocabulary = Vocabulary(tokens, mask="<mask>", **roles)
    assert vocabulary.special_ids == (2, 3, 0, 1, 4)
    assert vocabulary.special_tokens == {**roles, "mask": "<mask>"}


def test_file_round_trip(tmp_path):
    vocabulary = Vocabulary([*SPECIAL, "é", "##中", "\u2028", " x"])
    vocabulary.save(tmp_path / "vocab.txt")
    assert Vocabulary.from_file(tmp_path / "vocab.txt") == vocabulary
    (tmp_path / "windows.txt").write_bytes("\r\n".join(vocabulary.tokens).encode())
    assert Vocabulary.from_file(tmp_path / "windows.txt") == vocabulary


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (SPECIAL[1:], r"has no \[PAD\]"),
        ([*SPECIAL, "a", "a"], "has 'a' twice, at token 5 and token 6"),
        ([*SPECIAL, "", "a"], "has an empty token at token 5"),
        ([], r"has no \[PAD\] and no"),
        ([*SPECIAL, 3], "has 3 at token 5: expected text"),
        ([*SPECIAL, "a\0b"], r"has 'a\\x00b' at token 5: expected text"),
        ([*SPECIAL, "\ud800"], r"has '\\ud800' at token 5: expected text"),
    ],
)
def test_bad_tokens(tokens, message):
    with pytest.raises(InputError, match=message):
        Vocabulary(tokens)


@pytest.mark.parametrize("token", ["a\nb", "a\r"])
def test_line_ends_do_not_fit_into_the_file(token, tmp_path):
    with pytest.raises(InputError, match="one token on each line, so it cannot hold 'a"):
        Vocabulary([*SPECIAL, token]).save(tmp_path / "vocab.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[PAD]\n\n[UNK]\n", "vocab.txt has an empty token at line 2"),
        (b"[PAD]\na\na\n", "vocab.txt has 'a' twice, at line 2 and line 3"),
        (b"a\nb\n", r"vocab.txt: The vocabulary has no \[PAD\]"),
        (b"a\n\xff\n", "vocab.txt, line 2: byte 0xff at position 1 is not UTF-8"),
        (b"", "vocab.txt is empty"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        Vocabulary.from_file(path)


def test_continuation():
    assert [is_continuation(t) for t in ("##a", "a", "##", "#", "###")] == [1, 0, 0, 0, 1]


OTHERS = ("base-cased", "base-multilingual-cased")


@pytest.mark.parametrize(
    "name", ["base-uncased", *(pytest.param(n, marks=pytest.mark.private_data) for n in OTHERS)]
)
def test_real_vocabularies_are_valid(shared_data, name):
    vocabulary = Vocabulary.from_file(shared_data / f"vocabs/bert-{name}/vocab.txt")
    assert vocabulary.special_ids == (0, 100, 101, 102, 103)
