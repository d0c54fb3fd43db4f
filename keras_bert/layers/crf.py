"""Linear-chain conditional random field (CRF) over the labels of tokens."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.rematerialization import RematerializedByEncoder

IGNORED = -1  # id in place of a label at tokens that have no label
FORBIDDEN = -1e4  # score of a transition that is not allowed
IMPOSSIBLE = -1e9  # lower than the score of any label sequence


@keras.saving.register_keras_serializable(package="keras_bert")
class ConditionalRandomField(RematerializedByEncoder, keras.layers.Layer):
    """Scores a label sequence: the sum of its tokens' scores and its transitions' scores.

    See Lafferty et al. 2001 (https://repository.upenn.edu/handle/20.500.14332/6188) and, on top of
    a neural network, Huang et al. 2015 (https://arxiv.org/abs/1508.01991). A mask marks the tokens
    that count. The other tokens have no effect. The mask may have holes and empty rows.

    Label number L is the boundary. It stands before the first token that counts and after the last
    one, so the scores of first and last labels are transitions, too.

    The constructor makes all weights. They are float32 in every precision of the model. They start
    at zero: if every transition is allowed, a new CRF equals a softmax per token.

    Args:
        num_labels: number of labels, L.
        allowed: bool `[L + 1, L + 1]`, whether the column's label may follow the row's label. The
            last row is the start, the last column the end; see
            `keras_bert.tasks.entities.allowed_transitions`. None allows every transition.
        **kwargs: `name` and `trainable`, as in every Keras layer; `dtype` is float32.

    Raises:
        InputError: if `allowed` has another shape.

    Example:
        >>> crf = ConditionalRandomField(3)
        >>> labels, probabilities = crf.predict(np.zeros((2, 5, 3)), np.ones((2, 5)))
        >>> labels.shape, probabilities.shape
        ((2, 5), (2, 5, 3))
    """

    def __init__(self, num_labels: int, allowed: Any = None, **kwargs: Any):
        super().__init__(**{**kwargs, "dtype": "float32"})
        if keras.backend.backend() == "tensorflow":
            self.supports_jit = False  # XLA differentiates only loops of a fixed length
        self.num_labels = num_labels
        size = num_labels + 1
        self.allowed = np.ones((size, size), bool) if allowed is None else np.array(allowed, bool)
        if self.allowed.shape != (size, size):
            raise InputError(
                f"The table of allowed transitions has the shape {list(self.allowed.shape)}, but "
                f"must be {[size, size]}: {num_labels} labels and the boundary."
            )
        options = {"initializer": "zeros", "dtype": "float32", "autocast": False}
        self.transitions = self.add_weight((num_labels, num_labels), name="transitions", **options)
        self.start = self.add_weight((num_labels,), name="start", **options)
        self.end = self.add_weight((num_labels,), name="end", **options)
        self.build((None, None, num_labels))
        self._predict: Callable[..., Any] | None = None

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        config = {"num_labels": self.num_labels, "allowed": self.allowed.tolist()}
        return {**super().get_config(), **config}

    def get_build_config(self) -> None:
        """Returns None: the constructor builds the layer."""

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """`[B, T]` and `[B, T, L]`."""
        return (None, None), (None, None, self.num_labels)

    def call(self, logits: Any, mask: Any) -> tuple[Any, Any]:
        """Returns the results of `decode` and of `marginals`."""
        return self.decode(logits, mask), self.marginals(logits, mask)

    def predict(self, logits: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Calls the layer on NumPy arrays, in a graph, because its loops are slow in eager mode."""
        if self._predict is None:
            inputs = keras.Input((None, self.num_labels)), keras.Input((None,), dtype="int32")
            # Keeps only the method: Keras would track the model itself as a part of the layer.
            self._predict = keras.Model(inputs, self(*inputs)).predict_on_batch
        return self._predict((logits, np.asarray(mask, "int32")))

    def log_likelihood(self, logits: Any, tags: Any, mask: Any) -> Any:
        """Returns the logarithm of the probability of label sequences.

        Args:
            logits: `[B, T, L]`.
            tags: `[B, T]` int32; any value where the mask is 0.
            mask: `[B, T]`, 1 or True at the tokens that count.

        Returns:
            `[B]` float32; 0 if no token counts. Each transition that is not allowed adds about
            -10,000.
        """
        table, lattice = self._table(), self._lattice(logits, mask)
        last, _ = _scan(_step(ops.logsumexp, table), self._boundary(lattice), lattice)
        log_partition = ops.logsumexp(last + table[:, -1], axis=-1)

        tags = ops.transpose(ops.where(ops.cast(mask, "bool"), ops.cast(tags, "int32"), IGNORED))
        boundary = ops.full_like(tags[0], self.num_labels)
        last, previous = ops.scan(
            lambda last, tag: (ops.where(tag == IGNORED, last, tag), last), boundary, tags
        )
        scores = lattice + ops.take(table, previous, axis=0)  # [T, B, L + 1]
        chosen = ops.one_hot(tags, self.num_labels + 1, dtype="float32")  # zeros where ignored
        score = ops.sum(scores * chosen, axis=(0, 2)) + ops.take(table[:, -1], last)
        return score - log_partition

    def marginals(self, logits: Any, mask: Any) -> Any:
        """Returns each token's label probabilities, summed over all sequences (forward-backward).

        Args:
            logits: `[B, T, L]`.
            mask: `[B, T]`, 1 or True at the tokens that count.

        Returns:
            `[B, T, L]` float32; zeros where the mask is 0.
        """
        table, lattice = self._table(), self._lattice(logits, mask)
        boundary = self._boundary(lattice)
        _, forward = _scan(_step(ops.logsumexp, table), boundary, lattice)
        backward_step = _step(ops.logsumexp, ops.transpose(table))
        _, backward = _scan(backward_step, boundary, lattice, reverse=True)
        scores = ops.transpose(forward + backward - lattice, (1, 0, 2))[:, :, :-1]
        counts = ops.cast(ops.expand_dims(mask, -1), "float32")
        return ops.softmax(scores, axis=-1) * counts

    def decode(self, logits: Any, mask: Any) -> Any:
        """Returns the most probable label sequences (Viterbi 1967).

        Args:
            logits: `[B, T, L]`.
            mask: `[B, T]`, 1 or True at the tokens that count.

        Returns:
            `[B, T]` int32; `IGNORED` where the mask is 0.
        """
        table, lattice = self._table(), self._lattice(logits, mask)
        forward = _loop(_step(_max, table), self._boundary(lattice), (lattice,))
        columns = ops.transpose(table)
        counts = ops.transpose(ops.cast(mask, "bool"))  # [T, B]

        def backward_step(following: Any, scores: Any, counts: Any) -> Any:
            # Keras' argmax uses bit operations that other runtimes lack.
            best = ops.top_k(scores + ops.take(columns, following, axis=0), 1)[1]
            return ops.where(counts, ops.cast(ops.squeeze(best, -1), "int32"), following)

        boundary = ops.full_like(ops.cast(counts[0], "int32"), self.num_labels)
        tags = _loop(backward_step, boundary, (forward, counts), reverse=True)
        return ops.transpose(ops.where(counts, tags, IGNORED))

    def _table(self) -> Any:
        """Returns scores of transitions `[L + 1, L + 1]`; the boundary is the last label."""
        end = ops.expand_dims(self.end, 1)
        rows = ops.concatenate([ops.convert_to_tensor(self.transitions), end], axis=1)
        start = ops.expand_dims(ops.pad(ops.convert_to_tensor(self.start), ((0, 1),)), 0)
        table = ops.concatenate([rows, start], axis=0)
        return ops.where(ops.convert_to_tensor(self.allowed), table, FORBIDDEN)

    def _lattice(self, logits: Any, mask: Any) -> Any:
        """Returns scores of tokens `[T, B, L + 1]` float32.

        The boundary's score is `IMPOSSIBLE` at tokens that count, and 0 at other tokens. `_step`
        skips the tokens where it is 0.
        """
        counts = ops.cast(ops.expand_dims(mask, -1), "float32")
        scores = ops.concatenate([ops.cast(logits, "float32"), counts * IMPOSSIBLE], axis=-1)
        return ops.transpose(scores, (1, 0, 2))

    def _boundary(self, lattice: Any) -> Any:
        """Returns the state before the first token, `[B, L + 1]`: only the boundary is possible."""
        scores = np.full(self.num_labels + 1, IMPOSSIBLE, "float32")
        scores[-1] = 0.0
        return ops.zeros_like(lattice[0]) + scores


def _max(x: Any, axis: int) -> Any:
    return ops.max(x, axis=axis, initial=-math.inf)  # an empty batch needs the initial value


def _step(reduce: Callable[..., Any], table: Any) -> Callable[[Any, Any], Any]:
    """Returns the function that computes a token's path scores from the previous token's.

    Args:
        reduce: combines the scores of all previous labels: a maximum or a logsumexp.
        table: scores of transitions `[L + 1, L + 1]`.
    """

    def step(before: Any, scores: Any) -> Any:
        into = reduce(ops.expand_dims(before, 2) + table, axis=1)
        return ops.where(scores[:, -1:] < 0, into + scores, before)

    return step


def _scan(
    step: Callable[[Any, Any], Any], state: Any, inputs: Any, reverse: bool = False
) -> tuple[Any, Any]:
    """Returns the last state and all states `[T, ...]`; gradients pass through."""
    return ops.scan(lambda state, x: (step(state, x),) * 2, state, inputs, reverse=reverse)


def _loop(
    step: Callable[..., Any], state: Any, inputs: tuple[Any, ...], reverse: bool = False
) -> Any:
    """Returns all states `[T, ...]`, without a gradient, with operations that every runtime has.

    `ops.scan` needs lists of tensors, which TFLite and ONNX lack. Here, each step copies the tensor
    of all states and sets the new state in it. A copy costs less than a step.
    """
    length = ops.shape(inputs[0])[0]
    # [T, 1, ...], one axis more than the state has
    positions = ops.reshape(ops.arange(length, dtype="int32"), (-1, *[1] * len(state.shape)))

    def body(count: Any, state: Any, states: Any) -> tuple[Any, Any, Any]:
        position = length - 1 - count if reverse else count
        state = step(state, *(ops.take(x, position, axis=0) for x in inputs))
        return count + 1, state, ops.where(positions == position, state, states)

    states = ops.zeros_like(positions, dtype=state.dtype) + ops.zeros_like(state)
    return ops.while_loop(
        lambda count, *_: count < length,
        body,
        (ops.zeros((), dtype="int32"), state, states),
        maximum_iterations=length,
    )[2]
