"""How many examples a step has, in a run whose batch grows."""

import dataclasses
import functools
import math
import sys

from keras_bert.pretraining.data.input_pipeline import num_batches


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchRamp:
    """A batch that is doubled after equal numbers of steps until it is full.

    A step is one update of the weights, whatever its batch. Few sizes mean few graphs.

    Args:
        first: batch of the first step.
        full: that times a power of two.
        steps: from which one on it is full; 0 where it is so from the beginning.
    """

    first: int
    full: int
    steps: int = 0

    @functools.cached_property
    def begins(self) -> dict[int, int]:
        """Step, from 0, to the batch from there on; in order."""
        doublings = (self.full // self.first).bit_length() - 1
        return {
            -(-self.steps * n // max(doublings, 1)): self.first << n for n in range(doublings + 1)
        }

    def at(self, step: int) -> int:
        """The batch of a step."""
        return max(size for begin, size in self.begins.items() if begin <= step)

    def until_change(self, step: int) -> int:
        """Steps from a step to the next one with a larger batch; very many if there is none."""
        return min((begin - step for begin in self.begins if begin > step), default=sys.maxsize)

    def steps_for(self, epochs: float, examples: int) -> int:
        """Steps of so many epochs, if each has so many examples; the last batch is filled up."""
        step = 0
        while epochs > 0 and step < self.steps:
            step += self._steps_from(step, math.ceil(min(epochs, 1) * examples))
            epochs -= 1
        return max(1, round(step + max(epochs, 0) * num_batches(examples, self.full)))

    def _steps_from(self, begin: int, examples: int) -> int:
        step = begin
        while examples > 0:
            size = self.at(step)
            count = min(self.until_change(step), num_batches(examples, size))
            step, examples = step + count, examples - count * size
        return step - begin
