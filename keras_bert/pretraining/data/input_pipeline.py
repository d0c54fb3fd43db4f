"""From a plan to batches: index arithmetic and one gather, in the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.pretraining.data.corpus import TokenizedCorpus
from keras_bert.pretraining.data.data_service import map_on_hosts
from keras_bert.pretraining.data.example_index import (
    EpochPlan,
    PackedPlan,
    Plan,
    plan_full_sentences,
    plan_packed,
)
from keras_bert.pretraining.data.mapped_tokens import MappedTokens, token_reader
from keras_bert.pretraining.data.masking import TokenMasking
from keras_bert.pretraining.data.random_bits import Purpose, random_bits, uniform
from keras_bert.text.vocabulary import Vocabulary


class ObjectiveLike(Protocol):
    """Attributes of an objective that decide the contents of a batch."""

    @property
    def plan(self) -> Callable[..., Plan]:
        """Plan of the examples of an epoch."""

    @property
    def pairs(self) -> bool:
        """Whether an example has two texts."""

    @property
    def samples(self) -> bool:
        """Whether the model takes original tokens and noise."""

    @property
    def heads(self) -> tuple[Any, ...]:
        """Losses, whose labels and weights a batch has."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Examples:
    """The training examples of a corpus, by epoch and number.

    Args:
        corpus: the text.
        vocabulary: its tokens.
        masking: which tokens are to be guessed.
        sequence_length: T.
        objective: decides which texts an example has, and which labels and weights.
        across_documents: whether stretches of text go on into the next document, in place of the
            objective's plan; for objectives without pairs.
        packed: whether rows are filled with several documents, the same.
        data_service: addresses of the hosts that make the batches; none means that it is done here.
        seed: of the plan and of the noise that a model samples with.

    Raises:
        InputError: if there are hosts to which the tokens would have to be sent.
    """

    corpus: TokenizedCorpus
    vocabulary: Vocabulary
    masking: TokenMasking
    sequence_length: int
    objective: ObjectiveLike
    across_documents: bool = False
    packed: bool = False
    data_service: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data_service and not isinstance(self.corpus.tokens, MappedTokens):
            raise InputError(
                "data_service has hosts that read records, so corpus must be a directory of "
                "keras-bert tokenize, and across_documents, which puts something in, be false."
            )

    def plan(self, epoch: int) -> Plan:
        """The plan of an epoch."""
        special = 3 if self.objective.pairs else 2
        plan: Callable[..., Plan] = self.objective.plan
        if self.across_documents or self.packed:
            plan = plan_packed if self.packed else plan_full_sentences
        return plan(self.corpus, self.sequence_length - special, seed=self.seed, epoch=epoch)

    def dataset(
        self,
        batch_size: int,
        *,
        epoch: int = 0,
        start: int = 0,
        limit: int | None = None,
        plan: Plan | None = None,
        parts: int = 1,
        first_part: int = 0,
        local_parts: int | None = None,
    ) -> tf.data.Dataset:
        """An epoch as batches `(x, y, w)`, for `fit` or for a loop.

        Every example comes once. The last batch is filled up with examples whose weights are 0,
        so that all batches have the same static shape. To begin at any example costs nothing.

        Args:
            batch_size: B of the global batch.
            epoch: number of the epoch, which decides pairs, order and masks.
            start: number of the first example.
            limit: number of examples, from the beginning of the epoch; None means all.
            plan: `plan(epoch)`, if it is at hand.
            parts: number of replicas among which every batch is divided, in order; an element of
                the dataset is then one part.
            first_part: the first part that is wanted here.
            local_parts: number of parts wanted here; default all.

        Returns:
            Elements of x: `token_ids`, `segment_ids`, `padding_mask` `[B, T]` int32 and
            `masked_positions` `[B, P]` int32; if rows are packed, also `document_ids` `[B, T]`
            int32; if the objective samples, `original_ids` `[B, T]` int32 and `noise` `[B, P]`
            float32. y: labels by head, for instance
            `mlm_logits` `[B, P]` and `nsp_logits` `[B]` int32. w: weights by head, float32. Where
            there is one head, y and w are its arrays alone.
        """
        plan = self.plan(epoch) if plan is None else plan
        local_parts = parts if local_parts is None else local_parts
        rows = batch_size // parts
        end = min(limit or len(plan), len(plan))
        batches = num_batches(end - start, batch_size)
        # Captured tensors are passed to the pipeline, not copied into its graph.
        tokens, columns = token_reader(self.corpus.tokens), plan_columns(plan)

        def batch(index: tf.Tensor) -> Any:
            part = first_part + index % local_parts
            first = start + (index // local_parts) * batch_size + part * rows
            wanted = first + tf.range(rows, dtype=tf.int64)
            number = tf.minimum(wanted, end - 1)
            return self._example(tokens, columns, epoch, number, wanted < end)

        indices = tf.data.Dataset.range(batches * local_parts)
        if self.data_service:
            dataset = map_on_hosts(indices, batch, self.data_service)
        else:
            dataset = indices.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return dataset.prefetch(tf.data.AUTOTUNE)

    def _example(
        self,
        tokens: Callable[[tf.Tensor], tf.Tensor],
        plan: Mapping[str, tf.Tensor],
        epoch: int,
        number: tf.Tensor,
        exists: tf.Tensor,
    ) -> Any:
        layout = arrange(plan, number, self.sequence_length, self.vocabulary)
        token_ids = tf.where(layout.special < 0, tokens(layout.index), layout.special)
        masked = self.masking(token_ids, epoch, number)
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
            row = random_bits(self.seed, epoch, number)[:, tf.newaxis]
            x["original_ids"] = token_ids
            x["noise"] = uniform(row, Purpose.NOISE, masked["positions"])
        weight = tf.cast(exists, tf.float32)
        labels = {"slots": masked["labels"]}
        if objective.pairs:
            labels["examples"] = tf.cast(tf.gather(plan["label"], number), tf.int32)
        weights = {
            "slots": masked["weights"] * weight[:, tf.newaxis],
            "tokens": tf.cast(x["padding_mask"], tf.float32) * weight[:, tf.newaxis],
            "examples": weight,
        }
        heads = [head for head in objective.heads if head.key]
        y = {head.key: labels[head.over] for head in heads if head.labelled}
        w = {head.key: weights[head.over] for head in heads}
        if len(heads) > 1:
            return x, y, w
        (key,) = w
        return x, y[key], w[key]


def distributed_batches(
    strategy: tf.distribute.Strategy,
    examples: Examples,
    batch_size: int,
    *,
    epoch: int = 0,
    start: int = 0,
    plan: Plan | None = None,
    limit: int | None = None,
) -> Iterator:
    """The batches of an epoch, every replica of every worker getting its part, in order.

    Args:
        strategy: whose replicas.
        examples: of all of them; a worker makes its own part only.
        batch_size: over all replicas.
        epoch: number of the epoch.
        start: number of the first example.
        plan: `examples.plan(epoch)`, if it is at hand.
        limit: number of examples, from the beginning of the epoch; None means all.
    """
    replicas = strategy.num_replicas_in_sync

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        local = replicas // context.num_input_pipelines
        return examples.dataset(
            batch_size,
            epoch=epoch,
            start=start,
            limit=limit,
            plan=plan,
            parts=replicas,
            first_part=context.input_pipeline_id * local,
            local_parts=local,
        )

    return iter(strategy.distribute_datasets_from_function(dataset))


def num_batches(examples: int, batch_size: int) -> int:
    """Batches of so many examples, the last of which may not be full."""
    return -(-examples // batch_size)


class Layout(NamedTuple):
    """A batch of rows, all `[B, T]`.

    Attributes:
        index: int64, number of the token of text that stands here, 0 where none does.
        special: int32, the id that stands here instead, or -1.
        segment_ids: int32.
        document_ids: int32, number of the document in its row from 1, 0 at padding.
    """

    index: tf.Tensor
    special: tf.Tensor
    segment_ids: tf.Tensor
    document_ids: tf.Tensor


def plan_columns(plan: EpochPlan | PackedPlan) -> dict[str, tf.Tensor]:
    """What a plan is made of, as tensors."""
    return {name: tf.constant(column) for name, column in vars(plan).items()}


def arrange(
    plan: Mapping[str, tf.Tensor], number: tf.Tensor, length: int, vocabulary: Vocabulary
) -> Layout:
    """Lays out examples.

    Args:
        plan: its columns.
        number: `[B]` int64, of the examples, ascending and without gaps; the last one may be
            repeated.
        length: T.
        vocabulary: for the special tokens.
    """
    arranged = _packed if "row_splits" in plan else _texts
    return arranged(plan, number, tf.range(length, dtype=tf.int64), vocabulary)


def _texts(
    plan: Mapping[str, tf.Tensor], number: tf.Tensor, position: tf.Tensor, vocabulary: Vocabulary
) -> Layout:
    """One text, `[CLS] a [SEP]`, or two, `[CLS] a [SEP] b [SEP]`."""
    example = {name: tf.gather(column, number)[:, tf.newaxis] for name, column in plan.items()}
    a_end = example["a_length"] + 1  # where the first [SEP] stands
    b_length = example["b_length"]
    end = tf.where(b_length > 0, a_end + b_length + 1, a_end)  # where the last one does
    special = _special_ids(vocabulary, position, end, (position == a_end) | (position == end))
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
    plan: Mapping[str, tf.Tensor], number: tf.Tensor, position: tf.Tensor, vocabulary: Vocabulary
) -> Layout:
    """Several texts, `[CLS] a [SEP] [CLS] b [SEP]`, and so on."""
    splits = plan["row_splits"]
    first, last = splits[number[0]], splits[number[-1] + 1]
    cell = number[:, tf.newaxis] * tf.size(position, tf.int64) + position  # [B, T]
    # Which stretch of the batch a cell belongs to: the last that begins before it or in it.
    begins = plan["cell"][first:last]
    stretch = tf.searchsorted(begins, tf.reshape(cell, [-1]), side="right", out_type=tf.int64) - 1
    stretch = tf.reshape(stretch, tf.shape(cell))
    inner = cell - tf.gather(begins, stretch)  # position within it
    stretch += first
    end = tf.gather(plan["length"], stretch) + 1
    special = _special_ids(vocabulary, inner, end, inner == end)
    index = tf.gather(plan["start"], stretch) + inner - 1
    document = stretch - tf.gather(splits, number)[:, tf.newaxis] + 1
    return Layout(
        index=tf.where(special < 0, index, 0),
        special=special,
        segment_ids=tf.zeros_like(special),
        document_ids=tf.cast(tf.where(inner <= end, document, 0), tf.int32),
    )


def _special_ids(
    vocabulary: Vocabulary, position: Any, end: tf.Tensor, is_separator: tf.Tensor
) -> tf.Tensor:
    """`[B, T]` int32: `[CLS]` at 0, padding after the end, separators where told, -1 elsewhere."""
    ids = tf.where(is_separator, vocabulary.separator_id, -1)
    ids = tf.where(position == 0, vocabulary.cls_id, ids)
    return tf.where(position > end, vocabulary.pad_id, ids)
