import subprocess
import sys
from collections import Counter

import pytest

from keras_bert.errors import InputError
from keras_bert.text.training import count_words
from keras_bert.text.wordpiece.tokenizer import WordPiece, load_normalizer
from keras_bert.text.wordpiece.training import learn_pieces, learn_vocabulary, split_normalized

TEXT = "The cats sat, the cat sits.\nThe rats sit; É\u0301lan!\n\n中国 the cats\n" * 20


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, "utf-8")
    return path


def test_words_are_counted_as_the_tokenizer_splits_them():
    normalizer = load_normalizer(lowercase=True, strip_accents=True)
    counts = count_words(["The CAT's", "中国 the", "", "É\0\u3000a"], split_normalized(normalizer))
    assert counts == Counter(["the", "cat", "'", "s", "中", "国", "the", "e", "a"])
    assert count_words(["中国!"], split_normalized(normalizer, split_cjk=False)) == Counter(
        ["中国", "!"]
    )


def test_merges_are_byte_pair_merges():
    # Pairs: "##a ##b" and "a ##a" 10 times each, "a ##b" 16 times; then "a ##a", the first of two.
    counts = {"aab": 10, "ab": 16, "b": 1}
    assert learn_pieces(counts, 7) == ["a", "b", "##a", "##b", "ab", "aa", "aab"]
    assert learn_pieces(counts, 7, min_frequency=11) == ["a", "b", "##a", "##b", "ab"]


def test_vocabulary_of_a_corpus(corpus):
    vocabulary = learn_vocabulary(corpus, 60)
    assert vocabulary.special_ids == (0, 1, 2, 3, 4)
    assert len(vocabulary) <= 60
    assert {"the", "中", "国", "e", ","} <= set(vocabulary.tokens)
    assert "É" not in vocabulary
    assert vocabulary.unknown_id not in WordPiece(vocabulary).tokenize([TEXT]).values.numpy()
    cased = learn_vocabulary([corpus], 60, lowercase=False)
    assert {"T", "E", "É"} & set(cased.tokens) == {"T", "É"}
    assert len(learn_vocabulary(corpus, 30)) == 30


def test_another_process_learns_the_same(corpus):
    code = (
        "import sys; from keras_bert.text.wordpiece.training import learn_vocabulary\n"
        "sys.stdout.write('\\n'.join(learn_vocabulary(sys.argv[1], 45).tokens))"
    )
    command = [sys.executable, "-c", code, str(corpus)]
    other = subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert other.stdout.decode() == "\n".join(learn_vocabulary(corpus, 45).tokens)


def test_rare_characters_are_left_out(corpus):
    vocabulary = learn_vocabulary(corpus, 60, max_alphabet=5)
    assert len([token for token in vocabulary.tokens if len(token) == 1]) == 5
    assert "中" not in vocabulary


def test_size_too_small(corpus):
    with pytest.raises(InputError, match="20 tokens cannot hold the characters.*at least 2"):
        learn_vocabulary(corpus, 20)


def test_without_the_trainer(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"needs tokenizers .*pip install .*\[vocab\]"):
        learn_vocabulary(corpus, 60)
