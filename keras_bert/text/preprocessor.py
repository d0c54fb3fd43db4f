"""Turns texts into an encoder's inputs: tokenizes, adds special tokens, cuts or pads."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import keras
import numpy as np
import tensorflow as tf

from keras_bert.atomic import replace_file
from keras_bert.errors import InputError
from keras_bert.text.rows import PADDED_LENGTHS, Overlap, Rows, Segment, arrange, room_for_text
from keras_bert.text.tokenizer import Texts, Tokenizer, to_strings, tokenizer_class
from keras_bert.text.vocabulary import Vocabulary

CONFIG_NAME = "preprocessor.json"
_TEXTS_AT_ONCE = 1024
_FIRST_KIND = "wordpiece"  # kind of tokenizer in old files, which do not name the kind

Padding: TypeAlias = Literal["longest", "max_length"]
"""Length of a padded batch: the length of its longest text, or always `sequence_length`."""


@keras.saving.register_keras_serializable(package="keras_bert")
class Preprocessor(keras.layers.Layer):
    """Packs texts as `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, eagerly or in a graph.

    A preprocessor is a Keras layer without weights. It takes `keras.Input(shape=(),
    dtype="string")` in a functional model.

    Args:
        tokenizer: splits the texts into tokens.
        sequence_length: largest number of tokens that a text has after packing. Longer texts are
            cut; in a pair, the longer text is cut first.
        padding: "longest" pads the texts of a batch to the longest one, rounded up so that few
            different lengths occur; see `PADDED_LENGTHS`. "max_length" pads all texts to
            `sequence_length`.
        separators_in_pair: number of separators between the texts of a pair; RoBERTa has two.
        separator_at_end: whether there is a separator after the last text; EuroBERT has none.
        num_segments: number of segment ids. If it is less than 2, both texts of a pair have
            segment 0.
        name: name of the layer.

    Raises:
        InputError: if `sequence_length` leaves no room for text, or an option is out of range.

    Example:
        >>> preprocessor = Preprocessor(tokenizer, sequence_length=128)
        >>> preprocessor(["a text", "another"])["token_ids"].shape
        TensorShape([2, 16])
        >>> pairs = preprocessor((["a question"], ["an answer"]))
        >>> dataset = dataset.batch(32).map(lambda text, label: (preprocessor(text), label))
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        sequence_length: int = 128,
        *,
        separators_in_pair: int = 1,
        separator_at_end: bool = True,
        num_segments: int = 2,
        padding: Padding = "longest",
        name: str = "preprocessor",
    ) -> None:
        super().__init__(name=name)
        if sequence_length < 3:
            raise InputError(f"sequence_length must be at least 3, not {sequence_length}.")
        if padding not in get_args(Padding):
            raise InputError(f"padding must be 'longest' or 'max_length', not {padding!r}.")
        if separators_in_pair not in (1, 2):
            raise InputError(f"separators_in_pair must be 1 or 2, not {separators_in_pair}.")
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.separators_in_pair = separators_in_pair
        self.separator_at_end = separator_at_end
        self.num_segments = num_segments
        self.padding = padding
        self.supports_jit = False  # XLA has no strings
        self.built = True

    @property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary of the tokenizer."""
        return self.tokenizer.vocabulary

    def __call__(self, texts: Any, *, training: bool | None = None, **options: Any) -> Any:
        """Prepares texts as `call` does. Only symbolic tensors go through Keras' own `__call__`.

        Keras would convert strings.
        """
        symbolic = any(isinstance(x, keras.KerasTensor) for x in keras.tree.flatten(texts))
        return super().__call__(texts, **options) if symbolic else self.call(texts, **options)

    def call(
        self,
        texts: Texts | tuple[Texts, Texts],
        *,
        return_offsets: bool = False,
        allow_special_tokens: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Prepares texts, or pairs of texts.

        Args:
            texts: strings `[N]` (a list, an array, a tensor), or one string, which is a batch of
                one. A tuple of two batches is a batch of pairs.
            return_offsets: whether to return the characters that each token covers.
            allow_special_tokens: whether `[MASK]` and other special tokens may be written in the
                texts. Otherwise, special tokens in the texts are split like any other text.

        Returns:
            A dictionary with `token_ids`, `segment_ids` and `padding_mask`, all int32 `[N, T]`.
            With `return_offsets`, also `starts` and `ends`: the token is `text[start:end]`. For
            special tokens and padding, both are 0.

        Raises:
            InputError: if the texts are not strings, or the batches of a pair differ in size.
        """
        batches = _batches(texts)
        tokenized = [
            self._tokenize(batch, return_offsets, allow_special_tokens) for batch in batches
        ]
        ids, *offsets = zip(*tokenized, strict=True)

        fixed = self.padding == "max_length"
        packed = layout(ids, self.sequence_length, **self.separators, fixed=fixed)
        outputs = packed.inputs(ids, self.vocabulary, self.num_segments)
        for name, values in zip(("starts", "ends"), offsets, strict=False):
            outputs[name] = packed.gather(values, (0, 0, 0))
        return outputs

    def compute_output_spec(
        self, texts: Any, *, return_offsets: bool = False, allow_special_tokens: bool = False
    ) -> dict[str, keras.KerasTensor]:
        """Returns symbolic outputs of `call` for symbolic texts."""
        size = keras.tree.flatten(texts)[0].shape[0]
        length = self.sequence_length if self.padding == "max_length" else None
        names = ["token_ids", "segment_ids", "padding_mask", *["starts", "ends"] * return_offsets]
        return {name: keras.KerasTensor((size, length), "int32", name=name) for name in names}

    def rows(
        self,
        texts: Texts | tuple[Texts, Texts],
        *,
        overlap: Overlap = None,
        offsets: bool = False,
    ) -> Rows:
        """Prepares texts, or pairs of texts, without padding and, on request, without cutting.

        Args:
            texts: as in `__call__`, but no symbolic tensors.
            overlap: None makes one row per text, cut as in `__call__`. With a number, a long text,
                or the long second text of a pair, becomes several rows. The rows are windows, and
                neighboring windows share this number of tokens. "auto" means a third of a window.
                In a pair, each window begins with the first text, cut to at most 64 tokens and at
                most half of the window's text tokens.
            offsets: whether to return the characters that each token covers.

        Returns:
            One or more rows for each text, in order.

        Raises:
            InputError: as in `__call__`, or if the overlap is as long as a window.
        """
        batches, parts = _batches(texts), []
        options = {"length": self.sequence_length, **self._options()}
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
            parts.append(arrange(segments, self.vocabulary, overlap, first, **options))
        return Rows.joined(parts)

    def _tokenize(
        self, texts: tf.Tensor, with_offsets: bool, allow_special_tokens: bool
    ) -> tuple[tf.RaggedTensor, ...]:
        if with_offsets:
            return self.tokenizer.tokenize_with_offsets(
                texts, allow_special_tokens=allow_special_tokens
            )
        return (self.tokenizer.tokenize(texts, allow_special_tokens=allow_special_tokens),)

    def with_length(self, sequence_length: int, padding: Padding | None = None) -> Preprocessor:
        """Returns the same preprocessor with another sequence length and, if given, padding."""
        padding = padding or self.padding
        return Preprocessor(self.tokenizer, sequence_length, padding=padding, **self._options())

    @property
    def separators(self) -> dict[str, Any]:
        """The options `separators_in_pair` and `separator_at_end`."""
        return {
            "separators_in_pair": self.separators_in_pair,
            "separator_at_end": self.separator_at_end,
        }

    def _options(self) -> dict[str, Any]:
        return {**self.separators, "num_segments": self.num_segments}

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the vocabulary, as values for JSON."""
        return {
            "name": self.name,
            "tokenizer": {"kind": self.tokenizer.kind, **self.tokenizer.get_config()},
            "sequence_length": self.sequence_length,
            "padding": self.padding,
            **self._options(),
        }

    def get_build_config(self) -> None:
        """Returns None: the constructor builds the layer."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Preprocessor:
        """Makes the preprocessor from the dictionary of `get_config`."""
        tokenizer = dict(config["tokenizer"])
        kind = tokenizer_class(tokenizer.pop("kind", _FIRST_KIND))
        return cls(**{**config, "tokenizer": kind.from_config(tokenizer)})

    def save(self, directory: str | os.PathLike) -> None:
        """Writes `preprocessor.json` and the tokenizer's files into a directory.

        A missing directory is made. The tokenizer's files are `vocab.txt`, or `vocab.json` and
        `merges.txt`, or `spiece.model`.
        """
        config = self.get_config()
        del config["name"]
        for name in self.tokenizer.in_files:
            del config["tokenizer"][name]
        self.tokenizer.save(directory)
        replace_file(Path(directory) / CONFIG_NAME, json.dumps(config, indent=2) + "\n")

    @classmethod
    def load(cls, directory: str | os.PathLike) -> Preprocessor:
        """Reads a preprocessor that `save` wrote.

        Raises:
            InputError: if a file is missing or damaged.
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


class Layout(NamedTuple):
    """Token to put at each position of a packed batch; all tensors are int32 `[N, T]`."""

    source: tf.Tensor
    """Index of each position's token in a list: the tokens of all segments, cls, separator, pad."""
    segment_ids: tf.Tensor
    padding_mask: tf.Tensor

    def gather(self, segments: Sequence[tf.RaggedTensor], special: Sequence[int]) -> tf.Tensor:
        """Returns one value for each position, int32 `[N, T]`, such as the id of its token.

        Args:
            segments: values of the tokens, `[N, (tokens)]`.
            special: values at the cls, separator and pad tokens.
        """
        values = [tf.cast(segment.values, tf.int32) for segment in segments]
        return tf.gather(tf.concat([*values, tf.constant(special, tf.int32)], 0), self.source)

    def inputs(
        self, segments: Sequence[tf.RaggedTensor], vocabulary: Vocabulary, num_segments: int = 2
    ) -> dict[str, tf.Tensor]:
        """Returns `token_ids`, `segment_ids` and `padding_mask`, int32 `[N, T]`."""
        special = (vocabulary.cls_id, vocabulary.separator_id, vocabulary.pad_id)
        return {
            "token_ids": self.gather(segments, special),
            "segment_ids": tf.minimum(self.segment_ids, max(num_segments - 1, 0)),
            "padding_mask": self.padding_mask,
        }


def layout(
    segments: Sequence[tf.RaggedTensor],
    length: int,
    separators_in_pair: int = 1,
    separator_at_end: bool = True,
    *,
    fixed: bool = True,
) -> Layout:
    """Lays out one or two segments, by index arithmetic on the whole batch.

    If the segments are too long, the longer one is cut first.

    Args:
        segments: token ids, or other values of the tokens, `[N, (tokens)]`.
        length: largest length T of the result.
        separators_in_pair: number of separators between two segments.
        separator_at_end: whether there is a separator after the last segment.
        fixed: whether T is always `length`. If not, T is the longest row's length, rounded up to
            one of `PADDED_LENGTHS`.

    Raises:
        InputError: if there are more than two segments, or `length` has no room for one token of
            each segment.
    """
    separators, room = room_for_text(len(segments), length, separators_in_pair, separator_at_end)
    sizes = [tf.size(segment.values, out_type=tf.int32) for segment in segments]
    cls = tf.add_n(sizes)
    separator, pad = cls + 1, cls + 2

    kept = _kept_lengths([tf.cast(s.row_lengths(), tf.int32) for s in segments], room)
    if not fixed:
        longest = tf.reduce_max(tf.pad(tf.add_n(kept), [[0, 1]])) + (length - room)
        index = tf.searchsorted(PADDED_LENGTHS, longest[tf.newaxis])[0]
        length = tf.minimum(tf.gather(PADDED_LENGTHS, index), length)
    position = tf.range(length)[tf.newaxis]  # [1, T]
    source = tf.where(position == 0, cls, pad)
    segment_ids = tf.zeros_like(position)
    start, first = tf.ones([1, 1], tf.int32), tf.constant(0)
    for number, segment in enumerate(segments):
        rows = tf.cast(segment.row_starts(), tf.int32)[:, tf.newaxis] + first  # [N, 1]
        end = start + kept[number][:, tf.newaxis]  # the position of the first separator
        after = end + separators[number]
        inside = (position >= start) & (position < after)
        token = tf.where(position >= end, separator, rows + position - start)
        source = tf.where(inside, token, source)
        segment_ids = tf.where(inside, number, segment_ids)
        start, first = after, first + sizes[number]
    return Layout(source, segment_ids, tf.cast(position < start, tf.int32))


def _kept_lengths(lengths: Sequence[tf.Tensor], room: int) -> list[tf.Tensor]:
    """Returns the number of tokens to keep of each segment.

    Args:
        lengths: number of tokens of each input in the first segment and, for pairs, in the second
            segment: one or two arrays `[N]` int32.
        room: largest number of tokens of all segments together.

    Returns:
        As many arrays `[N]` int32 as `lengths` has.

    The result is the same as if BERT's `_truncate_seq_pair` removed one token at a time from the
    end of the longer segment, or of the second one if both are equally long.
    """
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    first, second = lengths
    kept_second = tf.minimum(second, tf.maximum(room // 2, room - first))
    return [tf.minimum(first, room - kept_second), kept_second]


def _batches(texts: Texts | tuple[Texts, Texts]) -> list[tf.Tensor]:
    """Returns one batch of strings `[N]` or, for pairs, two."""
    batches = [to_strings(batch) for batch in (texts if isinstance(texts, tuple) else (texts,))]
    if not batches[0].shape.is_compatible_with(batches[-1].shape):
        sizes = " and ".join(str(batch.shape[0]) for batch in batches)
        raise InputError(
            f"The two batches of a pair have {sizes} texts, but must have the same number of texts."
        )
    return batches


def _segment(tokenized: tuple[tf.RaggedTensor, ...]) -> Segment:
    splits = tokenized[0].row_splits.numpy().astype(np.int64)
    return Segment(splits, *(tokens.values.numpy().astype(np.int32) for tokens in tokenized))
