"""Reads weights of transformers' TensorFlow classes (`TFBertModel` and others).

These classes wrote HDF5 (`tf_model.h5`) or safetensors. Tensor names are paths of layers.
`pytorch_name` converts them to the PyTorch classes' names. Matrices have Keras' layout.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import h5py
import numpy as np

from keras_bert.checkpoints.mapping import (
    KEY_OF_HEADS,
    QUERY_OF_HEADS,
    SAME,
    VALUE_OF_HEADS,
    of_transposed,
)
from keras_bert.errors import CheckpointError

WEIGHTS, INDEX = "tf_model.h5", "tf_model.h5.index.json"

# Kinds of rows whose tensors have another layout than in the PyTorch classes.
KINDS = {
    "dense": (("/kernel", ".weight", SAME), ("/bias", ".bias", SAME)),
    "convolution": (("/kernel", ".weight", SAME), ("/bias", ".bias", SAME)),
    "query_key_value": (
        ("/query/kernel", ".in_proj.weight", of_transposed(QUERY_OF_HEADS)),
        ("/key/kernel", ".in_proj.weight", of_transposed(KEY_OF_HEADS)),
        ("/value/kernel", ".in_proj.weight", of_transposed(VALUE_OF_HEADS)),
        ("/query/bias", ".q_bias", SAME),
        ("/value/bias", ".v_bias", SAME),
    ),
}

_WEIGHT, _BIAS = re.compile(r"\.(kernel|embeddings|gamma)$"), re.compile(r"\.beta$")
_NUMBER, _ONLY_IN_TENSORFLOW = "_._", re.compile(r"[^.]*___")


def is_tensorflow(names: Iterable[str]) -> bool:
    """Returns whether the names come from a TensorFlow class, whose names have slashes."""
    return any("/" in name for name in names)


def pytorch_name(name: str) -> str:
    """Converts the name of a tensor in a TensorFlow model to its name in the PyTorch model.

    For instance "mlm___cls/predictions/transform/dense/kernel:0" is
    "cls.predictions.transform.dense.weight", and "layer_._0" is "layer.0".
    """
    name = name.removesuffix(":0").replace(_NUMBER, "/").replace("/", ".")
    name = _ONLY_IN_TENSORFLOW.sub("", name)
    return _BIAS.sub(".bias", _WEIGHT.sub(".weight", name))


class HDF5Files:
    """Tensors of one HDF5 file or of a set of shards, by name without the prefix of the class.

    The files stay open, so all tensors belong to one save.

    Args:
        paths: the files.

    Raises:
        CheckpointError: if a file is missing or not a readable HDF5 file.
    """

    def __init__(self, paths: Iterable[Path]):
        self._paths = list(paths)
        self._places: dict[str, list[tuple[Path, h5py.Dataset]]] = {}
        for path in self._paths:
            for name, tensor in _tensors(path):
                self._places.setdefault(name, []).append((path, tensor))

    def names(self) -> Iterable[str]:
        """Returns the names of all tensors."""
        return self._places.keys()

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor by its name.

        Raises:
            CheckpointError: if the tensor cannot be read, or the file has different values of it.
        """
        path = self.where(name)
        try:
            # A layer that shares another layer's weights has a copy of them in the file.
            first, *copies = (np.asarray(tensor) for _, tensor in self._places[name])
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: cannot read the tensor {name!r}: {error}.") from error
        if not all(np.array_equal(first, copy) for copy in copies):
            raise CheckpointError(
                f"{path} holds two values of the tensor {name!r}; save the model again."
            )
        return first

    def where(self, name: str) -> str:
        """Returns the path of a tensor's file, or of the first file if there is no such tensor."""
        return str(self._places[name][0][0] if name in self._places else self._paths[0])


def _tensors(path: Path) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yields name and dataset of each tensor in a file.

    A file with the whole model has a group for each layer. In a group, the class's name precedes
    each tensor's name. A shard has only the tensors' names. Links to other files are not followed.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; the checkpoint is not complete.")
    items: dict[str, h5py.Group | h5py.Dataset] = {}
    try:
        file = h5py.File(path, "r", locking=False)
        file.visititems(items.__setitem__)
        layers = {
            name
            for name, item in items.items()
            if any(attribute.startswith("weight_names") for attribute in item.attrs)
        }
        for name, item in items.items():
            layer, _, rest = name.partition("/")
            if isinstance(item, h5py.Dataset):
                _check_plain(path, name, item)
                yield (rest.partition("/")[2] if layer in layers else name), item
    except (OSError, RuntimeError, KeyError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not a readable HDF5 file: {error}.") from error


def _check_plain(path: Path, name: str, tensor: h5py.Dataset) -> None:
    """Refuses compressed data, which may need any amount of memory, and data in other files."""
    if tensor.external or tensor.id.get_storage_size() != tensor.nbytes:
        raise CheckpointError(
            f"{path}: the tensor {name!r} is compressed or stored in another file, which "
            "transformers does not do. Save the model again with transformers."
        )
