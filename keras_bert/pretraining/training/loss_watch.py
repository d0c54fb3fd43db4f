"""A run that has lost its way, told by its losses."""

import math
import statistics
from collections import deque
from collections.abc import Mapping

LOOKS = 10


class LossWatch:
    """Follows the loss of a run from one look to the next.

    The loss diverges where its median over `LOOKS` looks is more than twice the lowest such median
    and more than half of what it was at first: a single bad batch does not count, but a run that
    has forgotten most of what it learned does, well before its loss is not finite.
    """

    def __init__(self) -> None:
        self.good_step = 0
        self._first = math.inf
        self._lowest = math.inf
        self._recent: deque[float] = deque(maxlen=LOOKS)

    def trouble(self, step: int, numbers: Mapping[str, float]) -> str:
        """What is wrong with a look, or nothing.

        `good_step` is then the last one until which all was well.

        Args:
            step: after which was looked.
            numbers: "loss", and others that must be finite.
        """
        loss = numbers["loss"]
        if not all(map(math.isfinite, numbers.values())):
            return f"The loss is no longer finite at step {step}"
        if math.isinf(self._first):
            self._first = loss
        self._recent.append(loss)
        limit = max(2 * self._lowest, self._first / 2)
        if loss <= limit:
            self.good_step = step
        if len(self._recent) == LOOKS:
            median = statistics.median(self._recent)
            if median > limit:
                return (
                    f"The loss diverges: its median is {median:.3g} at step {step} and was "
                    f"{self._lowest:.3g}"
                )
            self._lowest = min(self._lowest, median)
        return ""
