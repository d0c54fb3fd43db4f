"""Checks that an artifact gives the model's answers before the file gets its final path."""

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import keras
import numpy as np

from keras_bert import extras
from keras_bert.errors import InputError, KerasBertError
from keras_bert.export.signatures import Arrays, input_names, task_outputs_of

Run = Callable[[Arrays], Arrays]

FLOAT32_TOLERANCE = 1e-5


class ExportError(InputError):
    """An artifact cannot be made or run, or its answers are wrong; nothing was written."""


require = functools.partial(extras.require, purpose="An export")
"""Imports a module of a package that an extra installs; takes the module and the extra."""


@contextlib.contextmanager
def explaining(action: str) -> Iterator[None]:
    """Converts an error of a converter or runtime to an `ExportError` with one sentence."""
    try:
        yield
    except KerasBertError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ExportError(f"{action} failed: {reason[:300]}; nothing was written.") from error


def reference(model: keras.Model, inputs: Arrays) -> dict[str, np.ndarray]:
    """Returns the Keras model's outputs by name, for int32 arrays `[N, T]`."""
    outputs = task_outputs_of(model).outputs(
        model, {name: inputs[name] for name in input_names(model)}
    )
    return {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items()}


def zero_padding(outputs: Arrays, mask: np.ndarray) -> dict[str, np.ndarray]:
    """Sets the vectors `[N, T, ...]` of padding to zero, because they have no meaning.

    These vectors are averages over arbitrary tokens, and a tiny change in a model can change them
    a lot. Values that are not finite stay, so that a comparison finds them.
    """

    def kept(value: np.ndarray) -> np.ndarray:
        if value.ndim != 3 or value.shape[:2] != mask.shape or value.dtype.kind != "f":
            return value
        return np.where((mask[..., np.newaxis] != 0) | ~np.isfinite(value), value, 0)

    return {name: kept(np.asarray(value)) for name, value in outputs.items()}


def difference(expected: Arrays, actual: Arrays) -> float:
    """Returns the largest absolute difference of any output.

    The result is infinite if an output is missing, has another shape, or is not finite. Outputs of
    int32 are not compared, because they are choices, such as tags, and not quantities.
    """
    largest = 0.0
    for name, value in expected.items():
        if name not in actual or actual[name].shape != value.shape:
            return float("inf")
        if value.size and value.dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # infinity minus infinity
                gap = float(np.max(np.abs(actual[name].astype("float64") - value)))
            largest = max(largest, gap if gap == gap else float("inf"))
    return largest


def check(
    model: keras.Model,
    artifact: str,
    run: Run,
    tolerance: float,
    batches: Iterable[Arrays] = (),
    outputs: Collection[str] | None = None,
) -> None:
    """Compares an artifact with the model on a few batches with padding.

    Args:
        model: the Keras model.
        artifact: name of the artifact in messages.
        run: function that runs the artifact on int32 arrays `[N, T]` by name, and returns float32
            arrays by name.
        tolerance: largest difference allowed. If the largest expected value is more than 1, the
            tolerance is multiplied by this value.
        batches: inputs to compare on, by default the batches of `samples`.
        outputs: names of the artifact's outputs, if the artifact lacks some outputs of the model.

    Raises:
        ExportError: if the artifact does not run, or the difference is larger than allowed.
    """
    for inputs in batches or samples(model.config):
        shape = inputs["token_ids"].shape
        with explaining(f"Running the {artifact} on a batch of shape {shape}"):
            actual = run({name: inputs[name] for name in input_names(model)})
        expected = reference(model, inputs)
        kept = {name: expected[name] for name in outputs or expected}
        compare(artifact, kept, actual, tolerance, inputs["padding_mask"])


def compare(
    artifact: str,
    expected: Arrays,
    actual: Arrays,
    tolerance: float,
    mask: np.ndarray | None = None,
) -> None:
    """Compares an artifact's outputs with the model's; see `check`.

    Outputs of int32, which are choices such as tags, must be equal unless weights were quantized.
    If the padding mask `[N, T]` is given, vectors of padding are not compared, but must be finite.

    Raises:
        ExportError: if outputs differ by more than the tolerance allows.
    """
    if mask is not None:
        expected, actual = zero_padding(expected, mask), zero_padding(actual, mask)
    sizes = [float(np.abs(x).max()) for x in expected.values() if x.dtype.kind == "f"]
    allowed = tolerance * max(1.0, *sizes)
    found = difference(expected, actual)
    if found > allowed or found == float("inf"):
        raise ExportError(
            f"The {artifact} differs from the model by {found:.1e}, where {allowed:.1e} is "
            "allowed; nothing was written."
        )
    exact = tolerance <= FLOAT32_TOLERANCE
    for name, value in expected.items():
        if exact and value.dtype.kind == "i" and not np.array_equal(value, actual[name]):
            raise ExportError(
                f"The {artifact} chooses other {name} than the model; nothing was written."
            )


def samples(config: Any, shape: tuple[int, int] | None = None) -> list[dict[str, np.ndarray]]:
    """Makes batches of random ids, int32 `[N, T]`; the first row has no padding.

    Args:
        config: an `EncoderConfig`.
        shape: (N, T) of the artifact if it is fixed, else None.
    """
    generator = np.random.default_rng(0)
    batches = []
    for batch, length in [shape] if shape else [(1, 8), (3, 20), (2, 5)]:
        length = min(length, config.max_positions)
        lengths = generator.integers(1, length + 1, batch)
        lengths[0] = length
        mask = (np.arange(length) < lengths[:, None]).astype("int32")
        segments = generator.integers(0, max(1, config.num_segments), mask.shape, dtype="int32")
        ids = generator.integers(0, config.vocabulary_size, mask.shape, dtype="int32")
        batches.append(
            {"token_ids": ids * mask, "segment_ids": segments * mask, "padding_mask": mask}
        )
    return batches
