"""What the progress bar of a run shows."""

import contextlib
import sys
import time
from collections.abc import Mapping

from tqdm import tqdm
from tqdm.utils import ObjectWrapper

_SPEED = {
    "tokens_per_second": ("tokens/s", "{:.0f}"),
    "padding": ("padding", "{:.1%}"),
    "utilisation": ("MFU", "{:.1%}"),
}


def make_bar(total: int, step: int, shown: bool) -> tqdm:
    """A bar of steps, for a run that begins or continues at one of them."""
    stream, disable = _Stream(sys.stderr), not shown
    return tqdm(total=total, initial=step, unit="step", file=stream, disable=disable, smoothing=0.1)


class _Stream(ObjectWrapper):
    """What a bar writes to. No run ends because whoever read it has gone."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._wrapped.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._wrapped.flush()


def advance(bar: tqdm, steps: int, numbers: Mapping[str, float], *, traced: bool) -> None:
    """Moves the bar on, and its time left with it.

    Args:
        bar: of `make_bar`.
        steps: that were done.
        numbers: losses and accuracies, and what `Throughput` measures.
        traced: whether the steps had to wait for their graph, which says nothing about those to
            come: how long they took is then left out of the time left.
    """
    if bar.disable:
        return
    written = {name: _SPEED.get(name, (name, "{:.3f}")) for name in numbers if name != "loss"}
    bar.set_postfix(
        {called: form.format(numbers[name]) for name, (called, form) in written.items()},
        refresh=False,
    )
    if not traced:
        bar.update(steps)
        return
    bar.n += steps
    bar.last_print_n, bar.last_print_t = bar.n, time.time()  # where the next measurement begins
    began, bar.initial = bar.initial, bar.n  # so that nothing is said before there is one
    bar.refresh()
    bar.initial = began
