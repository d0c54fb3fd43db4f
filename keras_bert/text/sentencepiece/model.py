"""File of a SentencePiece model, and the operation that runs the model.

The format is a protocol buffer, `sentencepiece_model.proto` of SentencePiece (Kudo and Richardson,
2018, https://arxiv.org/abs/1808.06226). This module declares only the fields that it needs.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tensorflow as tf
import tensorflow_text as tf_text
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from keras_bert.errors import InputError

SPACE = "\u2581"
"""Character that stands for a space in a piece, usually at the start of a word: ▁."""

Kind = Literal["unigram", "bpe"]

_KINDS: dict[Kind, int] = {"unigram": 1, "bpe": 2}


class PieceType(enum.IntEnum):
    """Role of a piece."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # never found in text
    USER_DEFINED = 4  # always found in text
    UNUSED = 5
    BYTE = 6  # <0x00> to <0xFF>, for characters that have no piece


@dataclass(frozen=True)
class SentencePieceModel:
    """Content of a model file. A piece's index is its id in the model.

    Attributes:
        pieces: the P pieces.
        scores: score of each piece: its log probability (unigram) or the order of merges (bpe).
        types: role of each piece.
        character_map: map for normalization; see `character_map.py`. Empty means no normalization.
        kind: "unigram" or "bpe".
        byte_fallback: whether characters without a piece become the pieces of their bytes.
        add_dummy_prefix: whether a space is put before the text.
        remove_extra_whitespaces: whether spaces around the text and repeated spaces are dropped.
        escape_whitespaces: whether spaces become `▁`.
        treat_whitespace_as_suffix: whether `▁` is at the end of words, not at their start.

    Raises:
        InputError: if there is not exactly one unknown piece, or the lengths differ.
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    types: tuple[PieceType, ...]
    character_map: bytes = b""
    kind: Kind = "unigram"
    byte_fallback: bool = False
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True
    treat_whitespace_as_suffix: bool = False

    def __post_init__(self) -> None:
        if not len(self.pieces) == len(self.scores) == len(self.types):
            raise InputError(
                f"A SentencePiece model needs a score and a type for each of its "
                f"{len(self.pieces)} pieces, not {len(self.scores)} and {len(self.types)}."
            )
        unknown = self.types.count(PieceType.UNKNOWN)
        if unknown != 1:
            raise InputError(f"A SentencePiece model needs one unknown piece, not {unknown}.")

    @property
    def unknown_id(self) -> int:
        """Index of the unknown piece."""
        return self.types.index(PieceType.UNKNOWN)

    @classmethod
    def from_pieces(
        cls,
        pieces: Sequence[str],
        scores: Sequence[float],
        *,
        unknown_id: int,
        control: Sequence[str] = (),
        **options: Any,
    ) -> SentencePieceModel:
        """Makes a model from pieces and their scores.

        Args:
            pieces: the P pieces.
            scores: the P scores.
            unknown_id: index of the unknown piece.
            control: pieces that text never becomes.
            **options: other attributes of the model.

        Raises:
            InputError: if `unknown_id` is out of range.
        """
        if not 0 <= unknown_id < len(pieces):
            raise InputError(f"unknown_id is {unknown_id}, but there are {len(pieces)} pieces.")
        special = set(control)
        types = [PieceType.CONTROL if p in special else PieceType.NORMAL for p in pieces]
        types[unknown_id] = PieceType.UNKNOWN
        return cls(tuple(pieces), tuple(map(float, scores)), tuple(types), **options)

    @classmethod
    def from_bytes(cls, data: bytes) -> SentencePieceModel:
        """Reads a model file's content.

        Raises:
            InputError: if the content is not a complete SentencePiece model, or the model's type is
                neither unigram nor BPE.
        """
        try:
            message = _message_class().FromString(data)
            types = tuple(PieceType(piece.type) for piece in message.pieces)
        except (DecodeError, ValueError):
            message = None
        # The pieces come first in a file, so a truncated file may lack only the later messages.
        whole = message and message.HasField("trainer_spec") and message.HasField("normalizer_spec")
        if not whole or not message.pieces:
            raise InputError(
                "This is not a complete SentencePiece model: expected a file like spiece.model."
            )
        trainer, normalizer = message.trainer_spec, message.normalizer_spec
        kinds = {number: kind for kind, number in _KINDS.items()}
        if trainer.model_type not in kinds:
            raise InputError("The SentencePiece model must be of type unigram or BPE.")
        return cls(
            pieces=tuple(piece.piece for piece in message.pieces),
            scores=tuple(piece.score for piece in message.pieces),
            types=types,
            character_map=normalizer.precompiled_charsmap,
            kind=kinds[trainer.model_type],
            byte_fallback=trainer.byte_fallback,
            treat_whitespace_as_suffix=trainer.treat_whitespace_as_suffix,
            **{name: getattr(normalizer, name) for name in _SPACES},
        )

    def to_bytes(self) -> bytes:
        """Returns the content of a model file."""
        message = _message_class()()
        for piece, score, kind in zip(self.pieces, self.scores, self.types, strict=True):
            message.pieces.add(piece=piece, score=score, type=kind)
        trainer, normalizer = message.trainer_spec, message.normalizer_spec
        trainer.model_type = _KINDS[self.kind]
        trainer.vocab_size = len(self.pieces)
        trainer.byte_fallback = self.byte_fallback
        trainer.treat_whitespace_as_suffix = self.treat_whitespace_as_suffix
        trainer.unk_id = self.unknown_id
        trainer.unk_piece = self.pieces[self.unknown_id]
        trainer.bos_id = trainer.eos_id = trainer.pad_id = -1  # the vocabulary has these ids
        normalizer.name = "user_defined" if self.character_map else "identity"
        normalizer.precompiled_charsmap = self.character_map
        for name in _SPACES:
            setattr(normalizer, name, getattr(self, name))
        return message.SerializeToString(deterministic=True)


_SPACES = ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces")
# Fields of each message: name, number, type, default.
_MESSAGES: dict[str, list[tuple[str, int, str, str]]] = {
    "SentencePiece": [
        ("piece", 1, "string", ""),
        ("score", 2, "float", ""),
        ("type", 3, "int", "1"),
    ],
    "TrainerSpec": [
        ("model_type", 3, "int", "1"),
        ("vocab_size", 4, "int", "8000"),
        ("treat_whitespace_as_suffix", 24, "bool", "false"),
        ("byte_fallback", 35, "bool", "false"),
        ("unk_id", 40, "int", "0"),
        ("bos_id", 41, "int", "1"),
        ("eos_id", 42, "int", "2"),
        ("pad_id", 43, "int", "-1"),
        ("unk_piece", 45, "string", "<unk>"),
    ],
    "NormalizerSpec": [
        ("name", 1, "string", ""),
        ("precompiled_charsmap", 2, "bytes", ""),
        ("add_dummy_prefix", 3, "bool", "true"),
        ("remove_extra_whitespaces", 4, "bool", "true"),
        ("escape_whitespaces", 5, "bool", "true"),
    ],
    "ModelProto": [
        ("pieces", 1, "SentencePiece", ""),
        ("trainer_spec", 2, "TrainerSpec", ""),
        ("normalizer_spec", 3, "NormalizerSpec", ""),
    ],
}


@functools.cache
def _message_class() -> Any:
    """Returns the Python class of the message `ModelProto`."""
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {
        "string": kinds.TYPE_STRING,
        "bytes": kinds.TYPE_BYTES,
        "float": kinds.TYPE_FLOAT,
        "int": kinds.TYPE_INT32,
        "bool": kinds.TYPE_BOOL,
    }
    package = "keras_bert.text"
    file = descriptor_pb2.FileDescriptorProto(
        name="keras_bert/text/sentencepiece_model.proto", package=package, syntax="proto2"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, number, kind, default in fields:
            field = message.field.add(
                name=name,
                number=number,
                label=kinds.LABEL_REPEATED if name == "pieces" else kinds.LABEL_OPTIONAL,
                type=types.get(kind, kinds.TYPE_MESSAGE),
            )
            if kind not in types:
                field.type_name = f".{package}.{kind}"
            elif default:
                field.default_value = default
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.ModelProto"))


class SentencePieceOperation:
    """Splits strings `[N]` with tf.text's operation, and makes the operation in each graph anew.

    The operation has a resource. If it is made inside a graph, the graph owns and saves the
    resource. If it is made in eager mode, a saved object has to track the resource. Setting a seed
    clears TensorFlow's kernel cache, and with it a resource that was made in eager mode. So this
    class has its own graph for eager calls.

    Args:
        model: serialized `ModelProto`.
    """

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._graphs: dict[str, Any] = {}

    def tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Returns the pieces' ids in the model, int32 `[N, (pieces)]`."""
        return self._call("tokenize", strings)

    def tokenize_with_offsets(self, strings: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        """Returns the pieces' ids (int32), and their starts and ends in bytes (int64).

        Each is `[N, (pieces)]`.
        """
        return self._call("tokenize_with_offsets", strings)

    def _call(self, name: str, strings: tf.Tensor) -> Any:
        if not tf.executing_eagerly():
            return getattr(tf_text.SentencepieceTokenizer(self._model), name)(strings)
        if name not in self._graphs:
            # A concrete function: TensorFlow warns of retracing if many tokenizers have functions
            # of the same name.
            signature = [tf.TensorSpec([None], tf.string)]
            function = tf.function(getattr(self, name), signature, autograph=False)
            self._graphs[name] = function.get_concrete_function()
        return self._graphs[name](tf.convert_to_tensor(strings, tf.string))
