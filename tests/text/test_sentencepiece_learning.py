from pathlib import Path

import pytest
import sentencepiece

from keras_bert.errors import InputError
from keras_bert.text.sentencepiece.training import SPECIAL_TOKENS, learn_sentencepiece

LICENSE = Path(__file__).parents[2] / "LICENSE"


def test_learns_the_same_twice_in_the_layout_of_albert():
    first, second = (learn_sentencepiece(LICENSE, 500) for _ in range(2))
    assert first.model == second.model
    assert first.vocabulary.tokens[:5] == tuple(SPECIAL_TOKENS.values())
    assert first.vocabulary.special_ids == (0, 1, 2, 3, 4)
    assert 450 < len(first.vocabulary) <= 500


def test_another_layout():
    special = {
        "pad": "[PAD]",
        "cls": "[CLS]",
        "separator": "[SEP]",
        "unknown": "[UNK]",
        "mask": "[MASK]",
    }
    tokenizer = learn_sentencepiece(LICENSE, 500, special_tokens=special)
    assert tokenizer.vocabulary.tokens[:5] == tuple(special.values())
    assert tokenizer.vocabulary.unknown_id == 3


def test_learned_pieces_are_found_in_normalised_text(tmp_path):
    (tmp_path / "corpus.txt").write_text("Résumé ``naïve''\n" * 50, "utf-8")
    uncased = learn_sentencepiece(tmp_path / "corpus.txt", 40)
    assert all(token == token.lower() for token in uncased.vocabulary.tokens[5:])
    ids = uncased.tokenize(["RÉSUMÉ ``NAÏVE''", 'resume "naive"']).to_list()
    assert ids[0] == ids[1]
    assert uncased.vocabulary.unknown_id not in ids[0]
    cased = learn_sentencepiece(tmp_path / "corpus.txt", 40, lowercase=False)
    assert any("R" in token for token in cased.vocabulary.tokens)
    text = "Résumé ``naïve''"
    processor = sentencepiece.SentencePieceProcessor(model_proto=cased.model)
    assert cased.tokenize([text]).to_list()[0] == processor.encode(text)


def test_long_lines_are_not_left_out(tmp_path):
    (tmp_path / "corpus.txt").write_text("abc def " * 5000 + "\nxyz xyz\n", "utf-8")
    tokenizer = learn_sentencepiece(tmp_path / "corpus.txt", 30)
    assert set("abcdef") <= set(tokenizer.vocabulary.tokens)


def test_size_too_small_for_the_characters():
    with pytest.raises(InputError, match="a SentencePiece model of 10 tokens: Vocabulary size"):
        learn_sentencepiece(LICENSE, 10)


def test_files_are_read_as_everywhere(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        learn_sentencepiece(tmp_path / "none.txt", 100)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match="is empty"):
        learn_sentencepiece(tmp_path / "empty.txt", 100)


def test_words_of_scripts_without_spaces(tmp_path):
    text = "私は東京に住んでいます。\n今日は天気がいいですね。\nthe sun rises, suns rise.\n" * 40
    (tmp_path / "text.txt").write_text(text, "utf-8")
    tokenizer = learn_sentencepiece(tmp_path / "text.txt", 70)
    japanese, english = tokenizer.tokenize(["東京は天気がいい。今日", "sunset"]).to_list()
    assert min(len(japanese), len(english)) > 1
    assert not tokenizer.is_continuation[japanese].any()
    assert tokenizer.is_continuation[english[1:]].all()
