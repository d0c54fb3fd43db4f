"""Names and layouts of tensors in transformers' files, from the families' tables."""

import logging
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType

import numpy as np

from keras_bert.checkpoints.mapping import (
    KEY_OF_HEADS,
    QUERY_OF_HEADS,
    REVERSED,
    SAME,
    TRANSPOSED,
    VALUE_OF_HEADS,
    Kinds,
    Link,
    TensorSource,
    links,
    part_of,
)
from keras_bert.config import EncoderConfig
from keras_bert.families import Row

logger = logging.getLogger(__name__)

KINDS: Kinds = {
    "dense": (("/kernel", ".weight", TRANSPOSED), ("/bias", ".bias", SAME)),
    "norm": (("/gamma", ".weight", SAME), ("/beta", ".bias", SAME)),
    "rms_norm": (("/scale", ".weight", SAME),),
    "table": (("", ".weight", SAME),),
    "vector": (("", "", SAME),),
    "convolution": (("/kernel", ".weight", REVERSED), ("/bias", ".bias", SAME)),
    "query_key_value": (  # one matrix: for each head, its query, key and value
        ("/query/kernel", ".in_proj.weight", QUERY_OF_HEADS),
        ("/key/kernel", ".in_proj.weight", KEY_OF_HEADS),
        ("/value/kernel", ".in_proj.weight", VALUE_OF_HEADS),
        ("/query/bias", ".q_bias", SAME),
        ("/value/bias", ".v_bias", SAME),
    ),
}
KINDS |= {  # one of several dense layers, stacked in one
    f"dense_{part + 1}_of_{count}": (
        ("/kernel", ".weight", part_of(TRANSPOSED, part, count)),
        ("/bias", ".bias", part_of(SAME, part, count)),
    )
    for count in (2, 3)
    for part in range(count)
}

_OPTIONAL_PARTS = {  # names of weights, and the fields of the configuration that enable them
    "encoder/embeddings/segment_embedding": "num_segments",
    "encoder/embeddings/task_embedding": "num_task_types",
    "encoder/embeddings/position_embedding": "position_input",
    "encoder/relative_positions/table": "relative_positions",
    "encoder/relative_positions/layer_norm": "relative_layer_norm",
    "encoder/convolution/convolution": "convolution_size",
    "encoder/convolution/layer_norm": "convolution_size",
}


def links_of(
    family: ModuleType, config: EncoderConfig, *tasks: str, kinds: Kinds = KINDS
) -> list[Link]:
    """Returns the links for some tasks, with one layer more than the configuration has."""
    heads = (row for task in tasks for row in family.HUGGING_FACE_TASKS[task].rows)
    rows = [
        (kind, ours, theirs)
        for kind, ours, theirs in (*family.HUGGING_FACE, *heads)
        if ours not in _OPTIONAL_PARTS or getattr(config, _OPTIONAL_PARTS[ours])
    ]
    return links(rows, kinds, config.num_distinct_layers + 1, config.layers_per_group)


def output_layer(family: ModuleType) -> tuple[str, str]:
    """Returns transformers' names of a masked language model's output layer and of its head's bias.

    If the output layer is not tied, the layer and the head both have a bias, and only the layer's
    bias is used.
    """
    theirs = _theirs(family.HUGGING_FACE_TASKS["masked_lm"].rows)
    return theirs["masked_lm/decoder"], theirs["masked_lm/bias"]


def _theirs(rows: Iterable[Row]) -> dict[str, str]:
    """Returns transformers' name for each name of this package."""
    return {ours: theirs for _, ours, theirs in rows}


def other_names(family: ModuleType) -> Mapping[str, str]:
    """Maps prefixes of names in the family's table to the prefixes in the other set of names."""
    return getattr(family, "HUGGING_FACE_OTHER_NAMES", {})


class RenamedTensors:
    """Tensors of a source under the names in the family's table.

    Older files call a LayerNorm's weight and bias gamma and beta. Files of an encoder without a
    head leave out the family's prefix, such as `bert.`. Some families have another prefix, too. In
    some families, the masked language model has two sets of names.

    If a file has one tensor under several names, the value that transformers would use counts. If
    the values differ, a warning lists the names.

    Args:
        source: the tensors.
        family: module of the family.
        tied: whether the configuration ties the output matrix to the token embedding.
        spelled: function that converts a name of the source to the PyTorch class's name.

    Attributes:
        tied: whether the output matrix equals the token embedding.
        other_names: whether the masked language model has the set of names that is not in the
            table.
    """

    def __init__(
        self,
        source: TensorSource,
        family: ModuleType,
        tied: bool,
        spelled: Callable[[str], str],
    ):
        self._source = source
        decoder, bias = output_layer(family)
        matrix, its_bias = f"{decoder}.weight", f"{decoder}.bias"
        prefix = family.HUGGING_FACE_PREFIX
        other_prefix = getattr(family, "HUGGING_FACE_OTHER_PREFIX", prefix)
        rows = [theirs for _, _, theirs in family.HUGGING_FACE]
        bare = {r.removeprefix(prefix).split(".")[0] for r in rows if r.startswith(prefix)}
        self._names: dict[str, list[str]] = {}  # the first name in a list counts
        self.tied, self.other_names = tied, False
        # Names with the prefix come first, and gamma and beta before weight and bias.
        for name in sorted(source.names(), key=lambda name: (not name.startswith(prefix), name)):
            new = spelled(name).replace("LayerNorm.gamma", "LayerNorm.weight")
            new = new.replace("LayerNorm.beta", "LayerNorm.bias")
            if new.startswith(other_prefix):
                new = prefix + new.removeprefix(other_prefix)
            if new.split(".")[0] in bare:
                new = prefix + new
            for legacy, other in other_names(family).items():
                if new.startswith(other):
                    new, self.other_names = new.replace(other, legacy), True
            if not new.endswith("position_ids"):  # a buffer, not a weight
                self._names.setdefault(new, []).append(name)
        if its_bias != bias and its_bias in self._names:
            same = self._names.pop(bias, []) if tied else []
            self._names[bias] = self._names.pop(its_bias) + same
        if tied and matrix in self._names:
            table = f"{_theirs(family.HUGGING_FACE)['encoder/embeddings/token_embedding']}.weight"
            self.tied = self._agree(self._names.get(table, []) + self._names[matrix])
            if self.tied:
                del self._names[matrix]
            else:
                logger.warning(
                    "%s: %r and %r differ, though tie_word_embeddings is true; both are kept, as "
                    "in transformers.",
                    self.where(matrix),
                    table,
                    matrix,
                )

    def names(self) -> Iterable[str]:
        """Returns the names of all tensors, as in the family's table."""
        return self._names.keys()

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor by its name."""
        if not self._agree(self._names[name]):
            logger.warning(
                "%s: %s are one tensor, but their values differ; the first is used, as in "
                "transformers.",
                self.where(name),
                " and ".join(map(repr, self._names[name])),
            )
        return self._source.read(self._names[name][0])

    def where(self, name: str) -> str:
        """Returns the file of a tensor."""
        return self._source.where(self._names.get(name, [name])[0])

    def _agree(self, names: list[str]) -> bool:
        """Returns whether these tensors have the same values."""
        return all(
            np.array_equal(self._source.read(names[0]), self._source.read(other))
            for other in names[1:]
        )
