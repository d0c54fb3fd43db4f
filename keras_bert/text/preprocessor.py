"""Texts to the inputs of an encoder: tokenized, packed, at a fixed length."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.text.packing import layout
from keras_bert.text.strings import Texts, to_strings
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece import WordPiece

CONFIG_NAME = "preprocessor.json"
VOCABULARY_NAME = "vocab.txt"


@keras.saving.register_keras_serializable(package="keras_bert")
class Preprocessor:
    """Makes `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]` of texts, eagerly or in a graph.

    Example:
        >>> preprocessor = Preprocessor(tokenizer, sequence_length=128)
        >>> preprocessor(["a text", "another"])["token_ids"].shape
        TensorShape([2, 128])
        >>> pairs = preprocessor((["a question"], ["an answer"]))
        >>> dataset = dataset.batch(32).map(lambda text, label: (preprocessor(text), label))

    Args:
        tokenizer: what splits the texts.
        sequence_length: the length of all results; longer texts are cut, of a pair the longer
            text first.

    Raises:
        InputError: if `sequence_length` leaves no room for text.
    """

    def __init__(self, tokenizer: WordPiece, sequence_length: int = 128) -> None:
        if sequence_length < 3:
            raise InputError(f"sequence_length must be at least 3, not {sequence_length}.")
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer's vocabulary."""
        return self.tokenizer.vocabulary

    def __call__(
        self,
        texts: Texts | tuple[Texts, Texts],
        *,
        return_offsets: bool = False,
        allow_special_tokens: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Prepares texts, or pairs of texts.

        Args:
            texts: strings `[N]` (a list, an array, a tensor), or one string, which is a batch of
                one. A tuple of two such batches is a batch of pairs.
            return_offsets: also say which characters of its text each token covers.
            allow_special_tokens: read `[MASK]` and the like in the texts as special tokens.

        Returns:
            `token_ids`, `segment_ids`, `padding_mask`, and on request `starts` and `ends` (0 for
            special tokens and padding), all int32 `[N, sequence_length]`.

        Raises:
            InputError: if these are not texts, or the two batches of a pair differ in size.
        """
        batches = [to_strings(batch) for batch in (texts if isinstance(texts, tuple) else (texts,))]
        if not batches[0].shape.is_compatible_with(batches[-1].shape):
            sizes = " and ".join(str(batch.shape[0]) for batch in batches)
            raise InputError(f"A pair needs two batches of one size, not of {sizes} texts.")
        tokenized = [
            self._tokenize(batch, return_offsets, allow_special_tokens) for batch in batches
        ]
        ids, *offsets = zip(*tokenized, strict=True)

        packed = layout(ids, self.sequence_length)
        vocabulary = self.vocabulary
        special = (vocabulary.cls_id, vocabulary.separator_id, vocabulary.pad_id)
        outputs = {
            "token_ids": packed.gather(ids, special),
            "segment_ids": packed.segment_ids,
            "padding_mask": packed.padding_mask,
        }
        for name, values in zip(("starts", "ends"), offsets, strict=False):
            outputs[name] = packed.gather(values, (0, 0, 0))
        return outputs

    def _tokenize(
        self, texts: tf.Tensor, with_offsets: bool, allow_special_tokens: bool
    ) -> tuple[tf.RaggedTensor, ...]:
        if with_offsets:
            return self.tokenizer.tokenize_with_offsets(
                texts, allow_special_tokens=allow_special_tokens
            )
        return (self.tokenizer.tokenize(texts, allow_special_tokens=allow_special_tokens),)

    def with_length(self, sequence_length: int) -> Preprocessor:
        """The same, for another sequence length."""
        return Preprocessor(self.tokenizer, sequence_length)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, ready for JSON; the vocabulary is in it."""
        return {"tokenizer": self.tokenizer.get_config(), "sequence_length": self.sequence_length}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Preprocessor:
        """The preprocessor that `get_config` describes."""
        return cls(WordPiece.from_config(config["tokenizer"]), config["sequence_length"])

    def save(self, directory: str | os.PathLike) -> None:
        """Writes `vocab.txt` and `preprocessor.json` into a directory, which is made if missing."""
        config = self.get_config()
        del config["tokenizer"]["vocabulary"]
        self.vocabulary.save(Path(directory) / VOCABULARY_NAME)
        with replacing(Path(directory) / CONFIG_NAME) as new:
            new.write_text(json.dumps(config, indent=2) + "\n", "utf-8")

    @classmethod
    def load(cls, directory: str | os.PathLike) -> Preprocessor:
        """Reads what `save` wrote.

        Raises:
            InputError: if a file is missing or is not what `save` writes.
        """
        path = Path(directory) / CONFIG_NAME
        try:
            config = json.loads(path.read_text("utf-8"))
            tokenizer = dict(config["tokenizer"])
            special = tokenizer.pop("special_tokens")
            vocabulary = Vocabulary.from_file(path.with_name(VOCABULARY_NAME), **special)
            return cls(WordPiece(vocabulary, **tokenizer), int(config["sequence_length"]))
        except FileNotFoundError:
            raise InputError(f"{path} does not exist: expected a saved preprocessor.") from None
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a preprocessor's configuration: {error!r}.") from None
