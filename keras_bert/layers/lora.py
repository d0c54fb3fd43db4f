"""Low-rank adapters (LoRA; Hu et al. 2021, https://arxiv.org/abs/2106.09685).

A dense layer with an adapter multiplies by W + α/r · A B instead of its kernel W `[I, O]`. The
adapter consists of the factors A `[I, r]` and B `[r, O]`, which are trained. W is not trained. B
starts at 0. Keras' dense layers have such adapters. This module chooses the layers, freezes all
other matrices, and merges, saves and loads the adapters. Biases and normalizations are trained, too
(Ben Zaken et al. 2022, https://arxiv.org/abs/2106.10199).
"""

import hashlib
import json
import logging
import math
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.atomic import replace_file
from keras_bert.errors import CheckpointError, InputError, closest

logger = logging.getLogger(__name__)

FACTORS = ("lora_kernel_a", "lora_kernel_b")
"""Names of an adapter's factors, A `[I, r]` and B `[r, O]`."""
_METADATA, _DESCRIPTION = "keras_bert_lora", ("task", "labels", "lora_alpha", "kernels")


class LowRankAdaptation:
    """Mixin of the encoder and of all tasks: adds, merges, saves and loads LoRA adapters."""

    def enable_lora(
        self,
        rank: int,
        targets: Sequence[str] | None = None,
        *,
        lora_alpha: float | None = None,
        seed: int | None = None,
    ) -> None:
        """Adds low-rank adapters to dense layers and freezes the encoder's matrices.

        See LoRA (Hu et al. 2021, https://arxiv.org/abs/2106.09685). Afterwards, only the adapters,
        the encoder's biases and normalizations (BitFit; Ben Zaken et al. 2022,
        https://arxiv.org/abs/2106.10199) and the task's head are trainable. A pooler counts as a
        part of the head if the head uses it. The outputs do not change, because one factor of each
        adapter is zero. If the model is compiled, compile it again.

        The encoder may be quantized to int8. Then head and pooler, which int8 has frozen, become
        float again, so the outputs change a little.

        `keras_bert.save`, `model.save` and all exports merge the adapters into the kernels. The
        model itself does not change.

        Args:
            rank: number of columns of A and rows of B.
            targets: dense layers of the encoder that get adapters, by the ends of their paths:
                "query", "key", "value", "output" (of attention and of the feed-forward block),
                "attention/output", "intermediate", "gate", "layer_0/attention/query" and so on. By
                default, all of them, as in QLoRA (Dettmers et al. 2023,
                https://arxiv.org/abs/2305.14314, section 4).
            lora_alpha: factor of the product: the kernel is W + lora_alpha / rank · A B. By
                default, it is the rank.
            seed: seed of the adapters' random values. By default, it is drawn from Keras' global
                seed.

        Raises:
            InputError: if the encoder has no such layer, the rank does not fit, the model has
                adapters already, or it is quantized in another way than to int8.

        Example:
            >>> classifier.enable_lora(8)
            >>> classifier.compile("adam", classifier.default_loss())
        """
        model: Any = self
        encoder = encoder_of(model)
        if adapted_layers(model):
            raise InputError(
                f"This {type(self).__name__} has adapters already. Call merge_lora() to add "
                "them to the kernels, or load the model again."
            )
        chosen = _chosen(encoder, targets)
        _check_rank(rank, lora_alpha, chosen)
        _check_quantization(model)
        seeds = np.random.SeedSequence(seed).generate_state(len(chosen)).tolist()
        _unfreeze(model)  # Keras ignores all weights in a frozen layer, also new ones
        for layer, own_seed in zip(chosen.values(), seeds, strict=True):
            layer.enable_lora(
                rank,
                lora_alpha=lora_alpha,
                a_initializer=_initializer(own_seed if seed is not None else None),
            )
        for layer in (layer for part in _head(model) for layer in part._flatten_layers()):
            if layer.quantization_mode == "int8":
                _dequantize(layer, model.dtype_policy)
        kept = _kept(model, chosen.values())
        for weight in encoder.weights:
            weight.trainable = weight.trainable and id(weight) in kept
        _forget_compiled(model)
        trained = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
        logger.info(
            "LoRA trains %s of %s parameters (%.2f %%).",
            f"{trained:,}",
            f"{model.count_params():,}",
            100 * trained / model.count_params(),
        )

    def merge_lora(self) -> None:
        """Adds the product of each adapter to its kernel and removes the adapters.

        Afterwards, the model is an ordinary model with the same outputs, and all its weights are
        trainable. If the model is compiled, compile it again before you train it. Kernels of int8
        are rounded to int8 again, so the outputs change a little.

        Raises:
            InputError: if the model has no adapters.

        Example:
            >>> classifier.merge_lora()
        """
        model: Any = self
        for layer in _needed(model):
            _merge(layer)
        _unfreeze(model)
        _forget_compiled(model)

    def save_lora_weights(self, path: str | os.PathLike) -> None:
        """Writes adapters, biases, normalizations and the head to a safetensors file.

        The file does not hold the encoder's embeddings and kernels. To use it, load the same
        encoder and call `load_lora_weights`.

        Args:
            path: the file, replaced if it exists.

        Raises:
            InputError: if the model has no adapters, or they differ in rank.
            StorageError: if the file cannot be written.

        Example:
            >>> classifier.save_lora_weights("reviews.safetensors")
        """
        from safetensors.numpy import save

        model: Any = self
        layers = _needed(model)
        if len({(layer.lora_rank, layer.lora_alpha) for layer in layers}) > 1:
            raise InputError(
                "The adapters differ in rank or lora_alpha, which a file cannot describe. Make all "
                "adapters with one call of model.enable_lora."
            )
        kept = _kept(model, layers)
        arrays = {
            name: ops.convert_to_numpy(weight)
            for name, weight in _named_weights(model).items()
            if id(weight) in kept
        }
        description = {
            "task": type(self).__name__,
            "labels": list(getattr(self, "labels", ())),
            "lora_alpha": layers[0].lora_alpha,
            "kernels": _digest(layers),
        }
        replace_file(path, save(arrays, {_METADATA: json.dumps(description)}))

    def load_lora_weights(self, path: str | os.PathLike) -> None:
        """Reads adapters, biases, normalizations and the head from a file of `save_lora_weights`.

        If the model has no adapters, they are added first, with the file's rank, layers and
        `lora_alpha`. An encoder also reads the file of a task, without the head. If the kernels
        differ from the kernels that the adapters were trained with, a warning is logged.

        Args:
            path: the file.

        Raises:
            CheckpointError: if the file is damaged or does not fit the model.
            InputError: if the model has other adapters.

        Example:
            >>> classifier = keras_bert.load("bert", task="classifier", labels=["bad", "good"])
            >>> classifier.load_lora_weights("reviews.safetensors")
        """
        model: Any = self
        arrays, description = _read(path)
        has_head = description["task"] != "Encoder"
        if has_head and model is not encoder_of(model):
            _check_task(path, model, description)
        kept = _kept(model if has_head else encoder_of(model), ())
        others = {
            name: weight
            for name, weight in _named_weights(model).items()
            if id(weight) in kept and not name.endswith("kernel_scale")  # of int8
        }
        named = _checked(path, model, arrays, others)
        rank = arrays[f"{next(iter(named))}/{FACTORS[0]}"].shape[1]
        if not adapted_layers(model):
            targets = [name.removeprefix("encoder/") for name in named]
            self.enable_lora(rank, targets, lora_alpha=description["lora_alpha"])
        layers = adapted_layers(model)
        theirs = {id(layer): (rank, description["lora_alpha"]) for layer in named.values()}
        if {id(layer): (layer.lora_rank, layer.lora_alpha) for layer in layers} != theirs:
            raise InputError(
                f"This {type(self).__name__} has adapters in other layers, or of another rank or "
                f"lora_alpha, than {path}. Load the model without adapters first."
            )
        if _digest(layers) != description["kernels"]:
            logger.warning(
                "%s was trained with other kernels than this model has, so the outputs may be "
                "wrong. Load the encoder that the adapters were trained with.",
                path,
            )
        for name, weight in _named_weights(model).items():
            if name in arrays:
                weight.assign(arrays[name])


def encoder_of(model: Any) -> Any:
    """Returns the encoder of a task, or the encoder itself."""
    return getattr(model, "encoder", model)


def reads_pooler(model: Any) -> bool:
    """Returns whether a task uses the output of the encoder's pooler."""
    return getattr(model, "pooling", None) == "pooled"


def adapted_layers(model: Any) -> list[Any]:
    """Returns all layers of a model that have adapters."""
    return [layer for layer in model._flatten_layers() if getattr(layer, "lora_enabled", False)]


def merged_kernel(layer: Any) -> Any:
    """Returns W + α/r · A B, or W if the layer has no adapter, in the precision of the weights.

    An int8 kernel is converted to float32.
    """
    kernel = ops.convert_to_tensor(layer._kernel)
    if layer.quantization_mode == "int8":
        kernel = ops.cast(kernel, "float32") / ops.convert_to_tensor(layer.kernel_scale)
    if not layer.lora_enabled:
        return kernel
    a, b = (ops.convert_to_tensor(factor) for factor in _factors(layer))
    # Not `layer.kernel`, which is rounded to the precision of the computations.
    delta = layer.lora_alpha / layer.lora_rank * ops.matmul(a, b)
    return ops.cast(ops.cast(kernel, "float32") + delta, kernel.dtype)


def _factors(layer: Any) -> tuple[Any, Any]:
    return layer.lora_kernel_a, layer.lora_kernel_b


def _kept(model: Any, adapted: Iterable[Any]) -> set[int]:
    """Returns the ids of all trained weights: factors, biases, normalizations and the head."""
    kept = {id(factor) for layer in adapted for factor in _factors(layer)}
    for layer in _below_pooler(encoder_of(model)):
        # Not the scales of int8 kernels, which are vectors, too.
        kept |= {id(weight) for weight in layer._trainable_variables if len(weight.shape) == 1}
    return kept | {id(weight) for part in _head(model) for weight in part.weights}


def _needed(model: Any) -> list[Any]:
    layers = adapted_layers(model)
    if not layers:
        raise InputError(
            f"This {type(model).__name__} has no adapters; add them with enable_lora(rank)."
        )
    return layers


def _unfreeze(model: Any) -> None:
    """Makes all weights trainable, except weights that never are, such as kernels of int8."""
    # Not `model.trainable = True`: if it is true already, TensorFlow ignores the assignment.
    for layer in model._flatten_layers():
        layer.trainable = True
        for weight in layer._trainable_variables:
            weight.trainable = True


def _head(model: Any) -> list[Any]:
    """Returns the parts that are trained as a whole: the head and the pooler that it uses."""
    encoder = encoder_of(model)
    if model is encoder:
        return []
    parts = [layer for layer in model.layers if layer is not encoder]
    return [*parts, encoder.pooler] if reads_pooler(model) else parts


def _below_pooler(encoder: Any) -> list[Any]:
    pooler = set() if encoder.pooler is None else {*encoder.pooler._flatten_layers()}
    return [layer for layer in encoder._flatten_layers() if layer not in pooler]


def _dense_layers(encoder: Any) -> dict[str, Any]:
    """Returns the dense layers below the pooler by their paths in the encoder."""
    layers = {
        _place(encoder, layer.path).removeprefix("encoder/"): layer
        for layer in _below_pooler(encoder)
        if isinstance(layer, keras.layers.Dense)
    }
    return dict(sorted(layers.items()))


def _place(encoder: Any, path: str) -> str:
    """Returns the path of an encoder's layer or weight, beginning with `encoder/`.

    If another encoder made the embeddings, their paths begin with the other encoder's name.
    """
    for part, name in ((encoder.embeddings, "encoder/embeddings"), (encoder, "encoder")):
        if path.startswith(f"{part.path}/"):
            return name + path.removeprefix(part.path)
    return path


def _named_weights(model: Any) -> dict[str, Any]:
    encoder = encoder_of(model)
    own = {id(weight) for weight in encoder.weights}
    return {
        _place(encoder, weight.path) if id(weight) in own else weight.path: weight
        for weight in model.weights
    }


def _chosen(encoder: Any, targets: Sequence[str] | None) -> dict[str, Any]:
    """Returns the dense layers whose paths end with a target, or all dense layers."""
    dense = _dense_layers(encoder)
    if targets is None:
        return dense
    targets, chosen = (targets,) if isinstance(targets, str) else tuple(targets), dict[str, Any]()
    if not targets:
        raise InputError("targets is empty, but must name dense layers, such as 'query'.")
    for target in targets:
        found = {path: each for path, each in dense.items() if f"/{path}".endswith(f"/{target}")}
        if not found:
            names = list(dict.fromkeys(path.rpartition("/")[2] for path in dense))
            raise InputError(
                f"This encoder has no dense layer {target!r}.{closest(str(target), names)} Choose "
                f"from {', '.join(names)}, or paths such as {next(iter(dense))}."
            )
        chosen |= found
    return dict(sorted(chosen.items()))


def _check_rank(rank: int, lora_alpha: float | None, layers: Mapping[str, Any]) -> None:
    if not isinstance(rank, numbers.Integral) or isinstance(rank, bool) or rank < 1:
        raise InputError(f"rank is {rank!r}, but must be a whole number, 1 or more.")
    if lora_alpha is not None and not 0 < lora_alpha < math.inf:
        raise InputError(f"lora_alpha is {lora_alpha!r}, but must be a positive number.")
    for path, layer in layers.items():
        if rank > min(layer.kernel.shape):
            raise InputError(
                f"rank is {rank}, but the kernel of {path} has the shape "
                f"{list(layer.kernel.shape)}; choose a rank of at most {min(layer.kernel.shape)}."
            )


def _check_quantization(model: Any) -> None:
    for layer in model._flatten_layers():
        if layer.quantization_mode not in (None, "int8"):
            raise InputError(
                f"The model is quantized to {layer.quantization_mode}, but adapters need "
                'float weights or int8: model.quantize("int8").'
            )


def _initializer(seed: int | None) -> keras.initializers.Initializer:
    """Returns the initializer of A in the authors' code: uniform between ± 1 / √I."""
    return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform", seed=seed)


def _dequantize(layer: Any, policy: Any) -> None:
    """Converts a dense layer of int8 to a trainable float layer."""
    value = ops.convert_to_numpy(merged_kernel(layer))
    for name in ("_kernel", "kernel_scale"):
        _remove(layer, name)
    layer.dtype_policy, layer._is_quantized = policy, False
    layer._tracker.unlock()
    layer._kernel = layer.add_weight(
        name="kernel", shape=value.shape, initializer=layer.kernel_initializer
    )
    layer._tracker.lock()
    layer._kernel.assign(value)


def _merge(layer: Any) -> None:
    if layer.quantization_mode is None:
        layer._kernel.assign(merged_kernel(layer))
        store = None
    else:
        store = dict[str, Any]()
        layer.save_own_variables(store)  # Keras adds the product, then rounds to int8
    # A function that was compiled for another model may still add the product.
    layer.lora_kernel_b.assign(ops.zeros(layer.lora_kernel_b.shape))
    for name in FACTORS:
        _remove(layer, name)
    layer.lora_enabled, layer.lora_rank, layer.lora_alpha = False, None, None
    if store is not None:
        layer.load_own_variables(store)


def _remove(layer: Any, name: str) -> None:
    """Removes a weight, like `del layer.name`, but without the garbage collection of Keras."""
    layer._untrack_variable(getattr(layer, name))
    super(keras.layers.Layer, layer).__delattr__(name)


def _forget_compiled(model: Any) -> None:
    """Makes Keras compile its functions again, because they use the layers as they were."""
    for part in (model, encoder_of(model)):
        part.train_function = part.test_function = part.predict_function = None


def _digest(layers: Iterable[Any]) -> str:
    """Returns a hash of the kernels without the adapters."""
    digest = hashlib.sha256()
    for layer in sorted(layers, key=lambda layer: layer.path):
        digest.update(ops.convert_to_numpy(layer._kernel).tobytes())
    return digest.hexdigest()


def _read(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the arrays and the description in a file of `save_lora_weights`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="np") as file:
            description = (file.metadata() or {}).get(_METADATA)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}.") from error
    try:
        values = {key: json.loads(description or "")[key] for key in _DESCRIPTION}
    except (TypeError, ValueError, KeyError):
        values = {}
    if not values or not any(name.endswith(FACTORS[0]) for name in arrays):
        raise CheckpointError(f"{path} has no adapters; give a file that save_lora_weights wrote.")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{path}: tensor {name!r} holds values that are not finite.")
    return arrays, values


def _check_task(path: Any, model: Any, description: Mapping[str, Any]) -> None:
    """Checks that the head in a file belongs to a model of this class with these labels."""
    if description["task"] != type(model).__name__:
        raise CheckpointError(
            f"{path} was saved by a {description['task']}, but this model is a "
            f"{type(model).__name__}."
        )
    labels = list(getattr(model, "labels", ()))
    if description["labels"] != labels:
        raise CheckpointError(
            f"{path} has the labels {description['labels']}, but this model has {labels}; load "
            "the model with the labels of the file."
        )


def _checked(
    path: Any, model: Any, arrays: Mapping[str, np.ndarray], others: Mapping[str, Any]
) -> dict[str, Any]:
    """Checks names and shapes in a file of adapters and of other weights.

    Returns:
        The dense layers with adapters in the file, by name.
    """
    dense = {f"encoder/{name}": layer for name, layer in _dense_layers(encoder_of(model)).items()}
    first = next(array for name, array in arrays.items() if name.endswith(FACTORS[0]))
    rank = first.shape[-1] if first.ndim else 0
    named, shapes = dict[str, Any](), {name: tuple(x.shape) for name, x in others.items()}
    for tensor in arrays:
        name, _, last = tensor.rpartition("/")
        if last not in FACTORS:
            continue
        if name not in dense:
            raise CheckpointError(f"{path} has an adapter for {name}, which this encoder lacks.")
        named[name] = dense[name]
        inputs, outputs = dense[name].kernel.shape
        shapes |= {f"{name}/{FACTORS[0]}": (inputs, rank), f"{name}/{FACTORS[1]}": (rank, outputs)}
    for tensor, shape in shapes.items():
        if tensor not in arrays:
            raise CheckpointError(f"{path} lacks the tensor {tensor!r}.")
        if arrays[tensor].shape != shape:
            raise CheckpointError(
                f"{path}: tensor {tensor!r} has shape {list(arrays[tensor].shape)}, but must have "
                f"{list(shape)}."
            )
    return dict(sorted(named.items()))
