"""Normalisation before the model's, put into the model's map."""

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.text.sentencepiece.tokenizer import SentencePiece
from keras_bert.text.sentencepiece.training import UNCASED
from tests.text.sentencepiece_reference import (
    LETTERS,
    MINIMAL,
    MODEL,
    TOKENIZER,
    hugging_face,
    tied,
)

NORMALIZERS = tokenizers.normalizers
UNCASED_TOKENIZER = SentencePiece(MODEL, special_tokens=MINIMAL, normalization=UNCASED)
UNCASED_PEER = hugging_face(
    MODEL,
    NORMALIZERS.Replace("``", '"'),
    NORMALIZERS.Replace("''", '"'),
    NORMALIZERS.NFKD(),
    NORMALIZERS.StripAccents(),
    NORMALIZERS.Lowercase(),
    # SentencePiece strips after these steps. Hugging Face strips before them, and keeps the space
    # of an accent that stands alone at the end.
    NORMALIZERS.Strip(),
)


@settings(max_examples=100, deadline=None)
@example("0 \u0301")
@example("\u0301 0 \u0301 \u0301")
@given(st.text([*LETTERS, "É", "Å", "é", "\u0301", "`", "ﬁ", "Ⅷ", "İ", " ", "T"], max_size=30))
def test_steps_are_those_of_hugging_face(text):
    ids, expected = UNCASED_TOKENIZER.tokenize([text]).to_list()[0], UNCASED_PEER.encode(text).ids
    assert ids == expected or tied(ids, expected)


def test_normalization_composes():
    tokenizer = SentencePiece(
        MODEL, special_tokens=MINIMAL, normalization=("single_spaces", "nfc", "lowercase")
    )
    written = tokenizer.detokenize(tokenizer.tokenize(["TE\u0301\u3000\u3000THE"]))
    expected = TOKENIZER.detokenize(TOKENIZER.tokenize(["té the"]))
    assert written[0] == expected[0]


def test_unknown_step_is_refused():
    with pytest.raises(InputError, match="no step of normalization 'uppercase'"):
        SentencePiece(MODEL, special_tokens=MINIMAL, normalization=["uppercase"])
