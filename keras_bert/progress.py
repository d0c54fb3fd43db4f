"""The progress bar of a training run."""

import contextlib
import sys

from tqdm import tqdm
from tqdm.utils import ObjectWrapper


def make_bar(total: int, step: int, shown: bool) -> tqdm:
    """Makes a progress bar of `total` steps that starts at `step`. It fits the terminal."""
    stream, disable = _Stream(sys.stderr), not shown
    return tqdm(
        total=total,
        initial=step,
        unit="step",
        file=stream,
        disable=disable,
        smoothing=0.1,
        dynamic_ncols=True,
    )


class _Stream(ObjectWrapper):
    """Stream for a progress bar. It ignores errors, so that a closed pipe does not end a run."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._wrapped.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._wrapped.flush()
