"""Tokenizes texts as `text.byte_pair` does, with operators that TFLite has.

Texts are split into words by the same code. TFLite lacks the SentencePiece operation that merges
the pairs, so this module has a loop. In each turn, each word merges the pair that was learned
first. Of equal pairs, it merges the leftmost one.
"""

import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.export._tflite.added_tokens import AddedTokens, Parts
from keras_bert.text.byte_pair.splitting import is_white, split_bytes
from keras_bert.text.byte_pair.tokenizer import BYTE_CHARACTERS, BytePair
from keras_bert.text.characters import characters_before, row_ids


class _Merges(NamedTuple):
    """R merges, sorted by their first piece, then by their second one; int32."""

    splits: np.ndarray
    """Index of the first merge that begins with each of V pieces, and R, `[V + 1]`."""
    seconds: np.ndarray
    """Second piece, `[R]`."""
    ranks: np.ndarray
    """Place in the order of learning, `[R]`."""
    merged: np.ndarray
    """Piece that the merge of each rank makes, `[R]`."""

    def find(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Returns the rank of the merge of pieces, int32 `[M]`; R for pieces without a merge."""
        low, after = tf.gather(self.splits, first), tf.gather(self.splits, first + 1)
        high, last = after, len(self.seconds) - 1
        for _ in range(int(np.diff(self.splits).max()).bit_length()):  # binary search
            middle = (low + high) // 2
            is_before = tf.gather(self.seconds, tf.minimum(middle, last)) < second
            low, high = (
                tf.where(is_before & (low < high), middle + 1, low),
                tf.where(is_before, high, middle),
            )
        place = tf.minimum(low, last)
        is_found = (low < after) & tf.equal(tf.gather(self.seconds, place), second)
        return tf.where(is_found, tf.gather(self.ranks, place), last + 1)


class PhoneBytePair:
    """The tokenizer `BytePair` with operators that TFLite has. It does not normalize texts.

    Args:
        tokenizer: a tokenizer for which `reason` returns "".
    """

    def __init__(self, tokenizer: BytePair) -> None:
        self._tokenizer = tokenizer
        places = {piece: index for index, piece in enumerate(tokenizer.pieces)}
        self._bytes_as_pieces = np.array([places[c] for c in BYTE_CHARACTERS], np.int32)
        self._merges = _merges_of(tokenizer, places)
        self._added = _added_tokens_of(tokenizer)

    def tokenize(self, texts: tf.Tensor, *, before_mask: bool = False) -> tf.RaggedTensor:
        """Returns ids int32 `[N, (tokens)]` of texts `[N]`.

        Args:
            texts: the texts.
            before_mask: whether a mask follows. If it takes space, the white space at the end of a
                text is left out.
        """
        data, _ = self._bytes(texts)
        if before_mask and self._tokenizer.mask_takes_space:
            data = _without_last_space(data)
        pieces, added, _ = self._pieces(data)
        return pieces.with_values(self._ids(pieces.values, added))

    def tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        """Returns ids, and the start and end of each token in characters (code points)."""
        data, prefix = self._bytes(texts)
        pieces, added, starts = self._pieces(data)
        ends = tf.concat([starts[1:], tf.cast(data.row_splits[-1:], tf.int32)], axis=0)
        characters = characters_before(data.values)
        begin = tf.gather(characters, data.row_splits[:-1]) + prefix
        begin = tf.gather(begin, row_ids(pieces))
        # A token may begin inside of a character.
        starts = tf.maximum(tf.gather(characters, starts + 1) - 1 - begin, 0)
        ends = tf.gather(characters, ends) - begin
        trimmed = self._tokenizer.trimmed(pieces.values, starts, ends)
        starts, ends = (
            tf.where(added >= 0, whole, part)
            for whole, part in zip((starts, ends), trimmed, strict=True)
        )
        values = self._ids(pieces.values, added), starts, ends
        return tuple(pieces.with_values(x) for x in values)

    def _ids(self, pieces: tf.Tensor, added: tf.Tensor) -> tf.Tensor:
        return tf.where(added >= 0, added, tf.gather(self._tokenizer.ids_of_pieces, pieces))

    def _bytes(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns bytes of texts `[N, (bytes)]`, and lengths of their prefixes `[N]`; int32."""
        data = tf_text.ByteSplitter().split(texts)
        values, space = tf.cast(data.values, tf.int32), ord(" ")
        if not self._tokenizer.add_prefix_space:
            return data.with_values(values), tf.zeros_like(data.row_splits[:-1], tf.int32)
        first = tf.gather(tf.concat([values, [0]], axis=0), data.row_splits[:-1])
        prefix = tf.cast(tf.not_equal(first, space) & (data.row_lengths() > 0), tf.int32)
        shift = tf.cumsum(tf.cast(prefix, tf.int64))
        splits = data.row_splits + tf.concat([[0], shift], axis=0)
        places = tf.range(tf.size(values, tf.int64)) + tf.gather(shift, row_ids(data))
        # `scatter_nd` fills the other places with 0.
        values = tf.scatter_nd(places[:, tf.newaxis], values - space, [splits[-1]]) + space
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False), prefix

    def _pieces(self, texts: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Returns the pieces of texts that are bytes, int32 `[N, (bytes)]`.

        Returns:
            Index of each token's piece `[N, (tokens)]`, id of each token that is an added token
            (otherwise -1) `[tokens]`, and place of its first byte `[tokens]`; int32.
        """
        count = tf.size(texts.values)
        parts = Parts(texts, tf.fill([count], -1), tf.fill([count], False))
        for added in self._added:
            parts = added.cut(parts)
        # The bytes of added tokens are merged, too. Then their pieces are dropped except the first.
        words = split_bytes(parts.data, self._tokenizer.pattern)
        pieces = tf.gather(self._bytes_as_pieces, words.flat_values)
        rows = tf.cast(row_ids(words.values), tf.int32)
        pieces, starts = self._merged(pieces, rows, words.values.nrows(tf.int32))
        tokens = tf.gather(parts.tokens, starts)
        if self._added:
            stays = tf.where((tokens >= 0) | ~tf.gather(parts.is_inside, starts))[:, 0]
            pieces, tokens, starts = (tf.gather(x, stays) for x in (pieces, tokens, starts))
        # Number of tokens before each byte.
        begins = tf.scatter_nd(starts[:, tf.newaxis], tf.ones_like(starts), [count])
        before = tf.concat([[0], tf.cumsum(begins)], axis=0)
        splits = tf.cast(tf.gather(before, texts.row_splits), tf.int64)
        return tf.RaggedTensor.from_row_splits(pieces, splits, validate=False), tokens, starts

    def _merged(
        self, pieces: tf.Tensor, words: tf.Tensor, number: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the M merged pieces, and the place of their first byte, int32 `[M]`.

        Args:
            pieces: piece of each byte, int32 `[B]`.
            words: word of each byte, int32 `[B]`.
            number: number of words, int32.
        """
        merges = self._merges
        none = len(merges.merged)
        if not none:
            return pieces, tf.range(tf.size(pieces))
        # One more byte, because LiteRT's loop cannot return empty tensors.
        pieces, words = tf.concat([pieces, [0]], axis=0), tf.concat([words, [number]], axis=0)

        def turn(
            _: tf.Tensor, pieces: tf.Tensor, words: tf.Tensor, starts: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            is_pair = tf.equal(words, tf.concat([words[1:], [-1]], axis=0))
            rank = merges.find(pieces, tf.concat([pieces[1:], [0]], axis=0))
            rank = tf.where(is_pair, rank, none)
            best = tf.math.unsorted_segment_min(rank, words, number + 1)
            is_best = (rank < none) & tf.equal(rank, tf.gather(best, words))
            index, size = tf.range(tf.size(pieces)), tf.size(pieces)
            leftmost = tf.math.unsorted_segment_min(
                tf.where(is_best, index, size), words, number + 1
            )
            is_merged = tf.equal(index, tf.gather(leftmost, words))
            made = tf.gather(merges.merged, tf.minimum(rank, none - 1))
            pieces = tf.where(is_merged, made, pieces)
            goes = tf.concat([[False], is_merged[:-1]], axis=0)
            stays = tf.where(~goes)[:, 0]
            kept = (tf.gather(x, stays) for x in (pieces, words, starts))
            return tf.reduce_any(is_merged), *kept

        _, pieces, _, starts = tf.while_loop(
            lambda found, *_: found,
            turn,
            (tf.constant(True), pieces, words, tf.range(tf.size(pieces))),
            (tf.TensorShape([]), *3 * [tf.TensorShape([None])]),
        )
        return pieces[:-1], starts[:-1]


def reason(tokenizer: BytePair) -> str:
    """Returns why a file cannot contain a tokenizer, or ""."""
    if tokenizer.pattern != "gpt2":
        return f"TFLite has no operators for its tokenizer's pattern, {tokenizer.pattern}"
    if tokenizer.ignore_merges:
        return "TFLite has no operators for its tokenizer's ignore_merges"
    if tokenizer.add_prefix_space and tokenizer.added_tokens:
        return "its tokenizer has added tokens and add_prefix_space"
    for token in tokenizer.added_tokens:
        if token.single_word or token.lstrip or token.rstrip:
            return f"its added token {token.content!r} has single_word, lstrip or rstrip"
        if not token.normalized and token.content[-1].isspace():
            return f"its added token {token.content!r} ends in white space and is not normalized"
    return ""


def _added_tokens_of(tokenizer: BytePair) -> list[AddedTokens]:
    """Returns the added tokens, first those that are searched in the original text."""
    groups = []
    for normalized in (False, True):
        ids: dict[bytes, int] = {}
        tokens = [token for token in tokenizer.added_tokens if token.normalized == normalized]
        for token in sorted(tokens, key=lambda token: not token.special):
            content = token.content
            if normalized and tokenizer.normalization:
                content = unicodedata.normalize("NFC", content)
            ids.setdefault(content.encode(), tokenizer.vocabulary.id_of(token.content))
        groups += [AddedTokens(ids)] if ids else []
    return groups


def _merges_of(tokenizer: BytePair, places: Mapping[str, int]) -> _Merges:
    """Makes the table of merges; `places` has the index of each piece."""
    ranks: dict[tuple[int, int], int] = {}
    merged: list[int] = []
    for first, second in tokenizer.merges:
        if {first, second, first + second} <= places.keys():  # no special token
            pair = places[first], places[second]
            if pair not in ranks:
                ranks[pair] = len(merged)
                merged.append(places[first + second])
    pairs = np.array(sorted(ranks), np.int32).reshape(-1, 2)
    splits = np.searchsorted(pairs[:, 0], np.arange(len(places) + 1))
    in_order = [ranks[first, second] for first, second in pairs]
    return _Merges(*(np.array(x, np.int32) for x in (splits, pairs[:, 1], in_order, merged)))


def _without_last_space(texts: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the bytes of texts `[N, (bytes)]` without the white space at the end."""
    row, index = tf.cast(row_ids(texts), tf.int32), tf.range(tf.size(texts.values))
    after = tf.where(is_white(texts), 0, index + 1)
    after = tf.math.unsorted_segment_max(after, row, texts.nrows(tf.int32))
    is_kept = index < tf.gather(after, row)
    lengths = tf.maximum(tf.cast(after, tf.int64) - texts.row_starts(), 0)
    kept = tf.gather(texts.values, tf.where(is_kept)[:, 0])
    return tf.RaggedTensor.from_row_lengths(kept, lengths, validate=False)
