"""Texts to the inputs of an encoder: tokenized, packed, at a fixed length."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.text.packing import layout
from keras_bert.text.rows import Frame, Overlap, Rows, Segment, arrange
from keras_bert.text.tokenizer import Texts, Tokenizer, to_strings, tokenizer_class
from keras_bert.text.vocabulary import Vocabulary

CONFIG_NAME = "preprocessor.json"
_TEXTS_AT_ONCE = 1024
_FIRST_KIND = "wordpiece"  # before there were others, files did not say it


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
        separators_in_pair: how many separators stand between the texts of a pair: RoBERTa and
            its kin have two.
        num_segments: number of segment ids; if it is less than 2, the texts of a pair have the
            same.

    Raises:
        InputError: if `sequence_length` leaves no room for text, or an option is out of range.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        sequence_length: int = 128,
        *,
        separators_in_pair: int = 1,
        num_segments: int = 2,
    ) -> None:
        if sequence_length < 3:
            raise InputError(f"sequence_length must be at least 3, not {sequence_length}.")
        if separators_in_pair not in (1, 2):
            raise InputError(f"separators_in_pair must be 1 or 2, not {separators_in_pair}.")
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.separators_in_pair = separators_in_pair
        self.num_segments = num_segments

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
        batches = _batches(texts)
        tokenized = [
            self._tokenize(batch, return_offsets, allow_special_tokens) for batch in batches
        ]
        ids, *offsets = zip(*tokenized, strict=True)

        packed = layout(ids, self.sequence_length, self.separators_in_pair)
        vocabulary = self.vocabulary
        special = (vocabulary.cls_id, vocabulary.separator_id, vocabulary.pad_id)
        outputs = {
            "token_ids": packed.gather(ids, special),
            "segment_ids": tf.minimum(packed.segment_ids, max(self.num_segments - 1, 0)),
            "padding_mask": packed.padding_mask,
        }
        for name, values in zip(("starts", "ends"), offsets, strict=False):
            outputs[name] = packed.gather(values, (0, 0, 0))
        return outputs

    def rows(
        self,
        texts: Texts | tuple[Texts, Texts],
        *,
        overlap: Overlap = None,
        offsets: bool = False,
    ) -> Rows:
        """Prepares texts, or pairs of texts, without padding and, if wished, without cutting.

        Args:
            texts: as for calls, but nothing symbolic.
            overlap: None: one row per text, cut as in calls. A number: long texts, or long second
                texts of pairs, become several rows, windows that share so many tokens with their
                neighbors ("auto": a third of a window); of the first text of a pair at most 64
                tokens are left.
            offsets: also say which characters of its text each token covers.

        Returns:
            One row or more for each text, in order.

        Raises:
            InputError: as in calls, and if the overlap is as long as a window.
        """
        batches, vocabulary = _batches(texts), self.vocabulary
        frame = Frame(
            vocabulary.cls_id,
            vocabulary.separator_id,
            vocabulary.pad_id,
            self.sequence_length,
            self.separators_in_pair,
            self.num_segments,
        )
        if len(batches) > 2:
            raise InputError(f"Expected one text or a pair of texts, got {len(batches)}.")
        parts = []
        for first in range(0, max(int(batches[0].shape[0]), 1), _TEXTS_AT_ONCE):
            segments = [
                _segment(
                    self._tokenize(
                        batch[first : first + _TEXTS_AT_ONCE],
                        offsets and batch is batches[-1],
                        False,
                    )
                )
                for batch in batches
            ]
            parts.append(arrange(segments, frame, overlap, first))
        return Rows.joined(parts)

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
        return Preprocessor(self.tokenizer, sequence_length, **self._options())

    def _options(self) -> dict[str, int]:
        return {"separators_in_pair": self.separators_in_pair, "num_segments": self.num_segments}

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, ready for JSON; the vocabulary is in it."""
        return {
            "tokenizer": {"kind": self.tokenizer.kind, **self.tokenizer.get_config()},
            "sequence_length": self.sequence_length,
            **self._options(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Preprocessor:
        """The preprocessor that `get_config` describes."""
        tokenizer = dict(config["tokenizer"])
        kind = tokenizer_class(tokenizer.pop("kind", _FIRST_KIND))
        return cls(**{**config, "tokenizer": kind.from_config(tokenizer)})

    def save(self, directory: str | os.PathLike) -> None:
        """Writes `preprocessor.json` and the tokenizer's own files into a directory.

        The directory is made if it is missing. The files are `vocab.txt`, or `vocab.json` and
        `merges.txt`, or `spiece.model`.
        """
        config = self.get_config()
        for name in self.tokenizer.in_files:
            del config["tokenizer"][name]
        self.tokenizer.save(directory)
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
            tokenizer["special_tokens"] = dict(tokenizer["special_tokens"])
            kind = tokenizer_class(tokenizer.pop("kind", _FIRST_KIND))
            length = int(config["sequence_length"])
            config |= {"tokenizer": kind.load(directory, **tokenizer), "sequence_length": length}
            return cls(**config)
        except FileNotFoundError:
            raise InputError(f"{path} does not exist: expected a saved preprocessor.") from None
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a preprocessor's configuration: {error!r}.") from None


def _batches(texts: Texts | tuple[Texts, Texts]) -> list[tf.Tensor]:
    """One batch of strings `[N]` or, for pairs, two."""
    batches = [to_strings(batch) for batch in (texts if isinstance(texts, tuple) else (texts,))]
    if not batches[0].shape.is_compatible_with(batches[-1].shape):
        sizes = " and ".join(str(batch.shape[0]) for batch in batches)
        raise InputError(f"A pair needs two batches of one size, not of {sizes} texts.")
    return batches


def _segment(tokenized: tuple[tf.RaggedTensor, ...]) -> Segment:
    splits = tokenized[0].row_splits.numpy().astype(np.int64)
    return Segment(splits, *(tokens.values.numpy().astype(np.int32) for tokens in tokenized))
