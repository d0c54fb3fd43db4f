"""The training steps that `make tpu-check` compiles."""

import math
from typing import NamedTuple

SMALL = {
    "vocabulary_size": 30528,
    "num_layers": 2,
    "hidden_size": 512,
    "num_heads": 8,
    "intermediate_size": 2048,
}


class Case(NamedTuple):
    """A training step of a model: a preset or, without `size`, `SMALL` with a family's traits."""

    objective: str
    size: str = ""
    family: str = ""
    batch_size: int = 32
    length: int = 128
    accumulation: int = 1  # number of micro-batches of a batch

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Batch size B, length T, and number of masked tokens P (15 % of T)."""
        return self.batch_size, self.length, math.ceil(0.15 * self.length)


CASES = {
    "small mlm": Case("mlm", family="roberta"),
    "small mlm+nsp": Case("mlm+nsp", family="bert"),
    "small mlm+sop": Case("mlm+sop", family="albert"),
    "small rtd": Case("rtd", family="electra"),
    "small rtd+gdes": Case("rtd+gdes", family="deberta-v2"),
    "small distillation": Case("distillation", family="distilbert"),
    "small distillation-masked": Case("distillation-masked", family="distilbert"),
    "base 64 x 128": Case("mlm+nsp", "bert_base", batch_size=64),
    "base 64 x 512": Case("mlm+nsp", "bert_base", batch_size=64, length=512, accumulation=4),
    "large 64 x 128": Case("mlm+nsp", "bert_large", batch_size=64),
    "large 64 x 512": Case("mlm+nsp", "bert_large", batch_size=64, length=512, accumulation=16),
}
