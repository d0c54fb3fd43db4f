"""Files of SentencePiece models."""

import pytest

from keras_bert.errors import InputError
from keras_bert.text.sentencepiece.model import PieceType, SentencePieceModel
from keras_bert.text.sentencepiece.tokenizer import SentencePiece
from tests.text.sentencepiece_reference import MINIMAL, MODEL, reference, reference_ids


def test_model_is_read_and_written():
    model = SentencePieceModel.from_bytes(MODEL)
    assert model.pieces == tuple(map(reference(MODEL).id_to_piece, range(len(model.pieces))))
    assert (model.types[0], model.unknown_id) == (PieceType.UNKNOWN, 0)
    assert SentencePieceModel.from_bytes(model.to_bytes()) == model
    assert reference(model.to_bytes()).encode("The tokens") == reference_ids("The tokens")


def test_model_of_pieces_and_scores():
    read = SentencePieceModel.from_bytes(MODEL)
    built = SentencePieceModel.from_pieces(
        read.pieces, read.scores, unknown_id=0, character_map=read.character_map
    )
    assert built == read
    with pytest.raises(InputError, match="unknown_id is 9"):
        SentencePieceModel.from_pieces(["a"], [0.0], unknown_id=9)


OTHER_TYPE = b"\x0a\x05\x0a\x01a\x18\x09"  # a piece "a" of type 9


@pytest.mark.parametrize("data", [b"", b"no model", MODEL[:1000], b"\x0a", MODEL + OTHER_TYPE])
def test_file_that_is_no_model_is_refused(data):
    with pytest.raises(InputError, match="SentencePiece model"):
        SentencePiece(data, special_tokens=MINIMAL)


def test_model_that_is_cut_off_between_its_pieces_is_refused():
    pieces = b"".join(
        b"\x0a" + bytes([len(piece) + 2]) + b"\x0a" + bytes([len(piece)]) + piece
        for piece in (b"the", b"a")
    )
    whole = SentencePieceModel.from_bytes(pieces + MODEL)
    assert whole.pieces[:2] == ("the", "a")
    with pytest.raises(InputError, match="not a complete SentencePiece model"):
        SentencePieceModel.from_bytes(pieces)
