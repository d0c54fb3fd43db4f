"""A small model of SentencePiece, and what others make of texts with it."""

import io
from pathlib import Path

import pytest
import sentencepiece
import tokenizers

from keras_bert.text.sentencepiece.model import SentencePieceModel
from keras_bert.text.sentencepiece.tokenizer import SentencePiece

LICENSE = Path(__file__).parents[2] / "LICENSE"
MINIMAL = {
    "pad": "<unk>",
    "unknown": "<unk>",
    "cls": "<unk>",
    "separator": "<unk>",
    "mask": "<unk>",
}


def train(**options):
    """A model of the words in the license, by the reference's own trainer."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LICENSE.read_text("utf-8").splitlines()),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **{
            "bos_id": -1,
            "eos_id": -1,
            "vocab_size": 600,
            **{k: list(v) if isinstance(v, tuple) else v for k, v in options.items()},
        },
    )
    return model.getvalue()


# Characters that the model knows.
LETTERS = [*"abcdefghijklmnopqrstuvwxyzABCDEF0123456789.,!?()`'\"-_/", *"éÅßñ中国あ", "\U0001f600"]
MODEL = train()
TOKENIZER = SentencePiece(MODEL, special_tokens=MINIMAL)


def reference(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model)


REFERENCE = reference(MODEL)


def reference_ids(text):
    return REFERENCE.encode(text)


def tied(*cuts, model=MODEL):
    """Whether cuts of a text have one score, up to the rounding of its sum."""
    scores = SentencePieceModel.from_bytes(model).scores
    first, second = (sum(scores[i] for i in ids) for ids in cuts)
    return first == pytest.approx(second, rel=1e-6)


def hugging_face(model, *before):
    read = SentencePieceModel.from_bytes(model)
    peer = tokenizers.Tokenizer(
        tokenizers.models.Unigram(
            list(zip(read.pieces, read.scores, strict=True)), unk_id=read.unknown_id
        )
    )
    normalizers = tokenizers.normalizers
    peer.normalizer = normalizers.Sequence(
        [
            normalizers.Strip(),
            *before,
            normalizers.Precompiled(read.character_map),
            normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
        ]
    )
    peer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    return peer
