"""Makes batches from an index of examples.

For each batch, the graph computes the indices of all tokens, and gathers the tokens at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.pretraining.data.corpus import TokenizedCorpus
from keras_bert.pretraining.data.data_service import map_on_hosts
from keras_bert.pretraining.data.example_index import (
    AnyExampleIndex,
    full_sentences_index,
    packed_index,
)
from keras_bert.pretraining.data.mapped_tokens import MappedTokens
from keras_bert.pretraining.data.masking import TokenMasking
from keras_bert.pretraining.data.random_bits import Purpose, random_bits, uniform
from keras_bert.text.vocabulary import Vocabulary


class ObjectiveLike(Protocol):
    """Attributes of an objective that decide the contents of a batch."""

    @property
    def index_examples(self) -> Callable[..., AnyExampleIndex]:
        """Function that makes the index of an epoch's examples."""

    @property
    def pairs(self) -> bool:
        """Whether an example has two texts."""

    @property
    def samples(self) -> bool:
        """Whether the model samples tokens, and so needs the original tokens and noise."""

    @property
    def loss_terms(self) -> tuple[Any, ...]:
        """Losses of the objective. A batch has labels and weights for them."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Examples:
    """The training examples of a corpus, by epoch and number.

    Args:
        corpus: tokenized text.
        vocabulary: vocabulary of the text.
        masking: selects and replaces the tokens to predict.
        sequence_length: number of tokens T in a row.
        objective: decides the texts, labels and weights of an example.
        across_documents: whether a row may continue into the next document. Only for objectives
            without pairs.
        packed: whether rows are filled with several documents. Only for objectives without pairs.
        data_service: addresses of the hosts that make the batches. If it is empty, this process
            makes the batches.
        separator_at_end: whether there is a separator after the last text; EuroBERT has none.
        seed: seed of the examples. If the objective samples, also the seed of `noise` in `x`.

    Raises:
        InputError: if `data_service` is set, but `corpus` is not a directory of `keras-bert
            tokenize`, or `across_documents` is true.
    """

    corpus: TokenizedCorpus
    vocabulary: Vocabulary
    masking: TokenMasking
    sequence_length: int
    objective: ObjectiveLike
    across_documents: bool = False
    packed: bool = False
    data_service: tuple[str, ...] = ()
    separator_at_end: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data_service and not isinstance(self.corpus.tokens, MappedTokens):
            raise InputError(
                "data_service needs a corpus in files: corpus must be a directory that keras-bert "
                "tokenize wrote, not a mixture, and across_documents must be false, because it "
                "adds separators."
            )

    def example_index(self, epoch: int, block: int = 0) -> AnyExampleIndex:
        """Returns the index of an epoch's examples, or of the examples of a block of the epoch."""
        special = 3 if self.objective.pairs else 2
        index: Callable[..., AnyExampleIndex] = self.objective.index_examples
        if self.across_documents or self.packed:
            index = packed_index if self.packed else full_sentences_index
        max_tokens = self.sequence_length - special
        return index(self.corpus, max_tokens, seed=self.seed, epoch=epoch, block=block)

    def dataset(
        self,
        batch_size: int,
        *,
        epoch: int = 0,
        start: int = 0,
        limit: int | None = None,
        example_index: AnyExampleIndex | None = None,
        first_number: int = 0,
        length: int = 0,
        parts: int = 1,
        first_part: int = 0,
        local_parts: int | None = None,
    ) -> tf.data.Dataset:
        """Makes the batches `(x, y, w)` of an epoch, for `fit` or for a training loop.

        Every example comes once. The last batch is filled up with examples whose weights are 0,
        so that all batches have the same static shape. Starting at a later example costs nothing.

        Args:
            batch_size: number of examples B in a batch, over all replicas.
            epoch: number of the epoch, which decides pairs, order and masks.
            start: number of the first example.
            limit: number of examples, from the beginning of the epoch. By default, all.
            example_index: result of `self.example_index(epoch)`. By default, it is computed here.
            first_number: number of the first example in its epoch, if the corpus is a block of a
                larger one. An example's number in its epoch decides its masks.
            length: number of examples to fill up to, if other workers have more examples. The
                weights of the added examples are 0.
            parts: number of replicas. Every batch is divided into this number of parts, in order,
                and each element of the dataset is one part.
            first_part: index of this worker's first part.
            local_parts: number of this worker's parts. By default, all.

        Returns:
            Dataset of `(x, y, w)`:

            - x: `token_ids`, `segment_ids`, `padding_mask` `[B, T]` int32 and `masked_positions`
              `[B, P]` int32. If rows are packed, also `document_ids` `[B, T]` int32. If the
              objective samples tokens from a generator ("rtd"), also `original_ids` `[B, T]`
              int32 and `noise` `[B, P]` float32.
            - y: int32 labels of each loss that has labels. A key is the name of the model's output
              that the loss compares with them, such as `mlm_logits` `[B, P]`.
            - w: weights of each loss, float32.

            With several parts, an element has B / parts rows. If the objective has only one loss,
            y and w are arrays instead of dictionaries.
        """
        example_index = self.example_index(epoch) if example_index is None else example_index
        local_parts = parts if local_parts is None else local_parts
        rows = batch_size // parts
        end = min(limit or len(example_index), len(example_index))
        batches = num_batches(max(end, length) - start, batch_size)
        # The pipeline gets captured tensors as inputs. Constants would be copied into its graph.
        columns = {name: tf.constant(column) for name, column in vars(example_index).items()}
        if isinstance(self.corpus.tokens, MappedTokens):
            tokens = self.corpus.tokens.gather
        else:
            tokens = partial(tf.gather, tf.constant(self.corpus.tokens))

        def batch(index: tf.Tensor) -> Any:
            part = first_part + index % local_parts
            first = start + (index // local_parts) * batch_size + part * rows
            wanted = first + tf.range(rows, dtype=tf.int64)
            number = tf.minimum(wanted, end - 1)
            return self._example(tokens, columns, epoch, first_number, number, wanted < end)

        indices = tf.data.Dataset.range(batches * local_parts)
        if self.data_service:
            dataset = map_on_hosts(indices, batch, self.data_service)
        else:
            dataset = indices.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return dataset.prefetch(tf.data.AUTOTUNE)

    def _example(
        self,
        tokens: Callable[[tf.Tensor], tf.Tensor],
        columns: Mapping[str, tf.Tensor],
        epoch: int,
        first_number: int,
        number: tf.Tensor,
        exists: tf.Tensor,
    ) -> Any:
        layout = arrange(
            columns, number, self.sequence_length, self.vocabulary, self.separator_at_end
        )
        token_ids = tf.where(layout.special < 0, tokens(layout.index), layout.special)
        masked = self.masking(token_ids, epoch, first_number + number)
        x = {
            "token_ids": masked["token_ids"],
            "segment_ids": layout.segment_ids,
            "padding_mask": tf.minimum(layout.document_ids, 1),
            "masked_positions": masked["positions"],
        }
        if self.packed:
            x["document_ids"] = layout.document_ids
        objective = self.objective
        if objective.samples:
            row = random_bits(self.seed, epoch, first_number + number)[:, tf.newaxis]
            x["original_ids"] = token_ids
            x["noise"] = uniform(row, Purpose.NOISE, masked["positions"])
        weight = tf.cast(exists, tf.float32)
        labels = {"predictions": masked["labels"]}
        if objective.pairs:
            labels["examples"] = tf.cast(tf.gather(columns["label"], number), tf.int32)
        weights = {
            "predictions": masked["weights"] * weight[:, tf.newaxis],
            "tokens": tf.cast(x["padding_mask"], tf.float32) * weight[:, tf.newaxis],
            "examples": weight,
        }
        loss_terms = [term for term in objective.loss_terms if term.key]
        y = {term.key: labels[term.over] for term in loss_terms if term.labeled}
        w = {term.key: weights[term.over] for term in loss_terms}
        if len(loss_terms) > 1:
            return x, y, w
        (key,) = w
        return x, y[key], w[key]


def num_batches(examples: int, batch_size: int) -> int:
    """Returns the number of batches for this number of examples. The last batch may not be full."""
    return -(-examples // batch_size)


class Layout(NamedTuple):
    """Contents of a batch of rows. All tensors are `[B, T]`.

    Attributes:
        index: int64, index of the corpus' token at each position, or 0.
        special: int32, id of the special token at each position, or -1.
        segment_ids: int32, 0 for the first text and 1 for the second.
        document_ids: int32, number of the document in its row, from 1 on; 0 at padding.
    """

    index: tf.Tensor
    special: tf.Tensor
    segment_ids: tf.Tensor
    document_ids: tf.Tensor


def arrange(
    columns: Mapping[str, tf.Tensor],
    number: tf.Tensor,
    length: int,
    vocabulary: Vocabulary,
    separator_at_end: bool = True,
) -> Layout:
    """Arranges examples in rows of the same length.

    Args:
        columns: columns of the example index.
        number: `[B]` int64, consecutive numbers of the examples. The last number may be repeated.
        length: number of tokens T in a row.
        vocabulary: vocabulary with the special tokens.
        separator_at_end: whether there is a separator after the last text.
    """
    arranged = _packed if "row_splits" in columns else _texts
    positions = tf.range(length, dtype=tf.int64)
    return arranged(columns, number, positions, vocabulary, int(separator_at_end))


def _texts(
    columns: Mapping[str, tf.Tensor],
    number: tf.Tensor,
    position: tf.Tensor,
    vocabulary: Vocabulary,
    at_end: int,
) -> Layout:
    """Arranges rows of one text, `[CLS] a [SEP]`, or two, `[CLS] a [SEP] b [SEP]`.

    `at_end` is the number of separators at the end, 0 or 1.
    """
    example = {name: tf.gather(column, number)[:, tf.newaxis] for name, column in columns.items()}
    a_end = example["a_length"] + 1  # position of the first [SEP]
    b_length = example["b_length"]
    # Position of the last text token:
    text_end = tf.where(b_length > 0, a_end + b_length, a_end - 1)
    end = text_end + at_end
    special = _special_ids(vocabulary, position, end, (position == a_end) | (position > text_end))
    a_index = example["a_start"] + position - 1
    index = tf.where(position <= a_end, a_index, example["b_start"] + position - a_end - 1)
    inside = position <= end
    return Layout(
        index=tf.where(special < 0, index, 0),
        special=special,
        segment_ids=tf.cast((position > a_end) & inside, tf.int32),
        document_ids=tf.cast(inside, tf.int32),
    )


def _packed(
    columns: Mapping[str, tf.Tensor],
    number: tf.Tensor,
    position: tf.Tensor,
    vocabulary: Vocabulary,
    at_end: int,
) -> Layout:
    """Arranges rows of several texts, `[CLS] a [SEP] [CLS] b [SEP]` and so on.

    `at_end` is the number of separators at the end of a text, 0 or 1. Without them, padding is
    between the texts.
    """
    splits = columns["row_splits"]
    first, last = splits[number[0]], splits[number[-1] + 1]
    cell = number[:, tf.newaxis] * tf.size(position, tf.int64) + position  # [B, T]
    # A cell belongs to the last span that begins in the cell or before it.
    begins = columns["cell"][first:last]
    span = tf.searchsorted(begins, tf.reshape(cell, [-1]), side="right", out_type=tf.int64) - 1
    span = tf.reshape(span, tf.shape(cell))
    inner = cell - tf.gather(begins, span)  # position in the span
    span += first
    text_end = tf.gather(columns["length"], span)  # position of the last text token
    end = text_end + at_end
    special = _special_ids(vocabulary, inner, end, inner > text_end)
    index = tf.gather(columns["start"], span) + inner - 1
    document = span - tf.gather(splits, number)[:, tf.newaxis] + 1
    return Layout(
        index=tf.where(special < 0, index, 0),
        special=special,
        segment_ids=tf.zeros_like(special),
        document_ids=tf.cast(tf.where(inner <= end, document, 0), tf.int32),
    )


def _special_ids(
    vocabulary: Vocabulary, position: Any, end: tf.Tensor, is_separator: tf.Tensor
) -> tf.Tensor:
    """Returns the ids of the special tokens in rows, int32 `[B, T]`; -1 for all other tokens."""
    ids = tf.where(is_separator, vocabulary.separator_id, -1)
    ids = tf.where(position == 0, vocabulary.cls_id, ids)
    return tf.where(position > end, vocabulary.pad_id, ids)
