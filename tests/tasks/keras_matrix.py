"""Tasks x families x what Keras users expect of a model: each cell is one check.

    python -m tests.tasks.keras_matrix                            # small models, random weights
    python -m tests.tasks.keras_matrix --families bert --tasks classifier,encoder

It prints a table in Markdown. A cell is "yes" or the error of the check. The exit code is 1 if a
check failed.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_bert as kb
from keras_bert.families import FAMILIES as MODULES
from keras_bert.tasks.registry import TASKS as REGISTRY

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "good", "bad", "film", "was")
SMALL = {
    **{"vocabulary_size": 40, "hidden_size": 16, "num_layers": 1, "num_heads": 2},
    **{"intermediate_size": 24, "max_positions": 32},
}
FAMILIES: dict[str, dict[str, Any]] = {  # to what is special about them, at a small size
    "bert": {},
    "roberta": {},
    "xlm-roberta": {},
    "camembert": {},
    "distilbert": {},
    "albert": {"embedding_size": 8, "num_layers": 2, "layer_groups": 1},
    "electra": {"embedding_size": 8},
    "deberta": {},
    "deberta-v2": {"convolution_size": 3, "position_buckets": 16},
    "ernie": {},
    "megatron-bert": {},
    "xlm-roberta-xl": {},
    "mpnet": {},
    "nomic_bert": {},
    "gte": {},
    "jina_embeddings_v3": {},
    "modernbert": {"num_layers": 2, "attention_window": 2, "global_interval": 2},
    "eurobert": {"num_key_value_heads": 1},
}
TASKS: dict[str, dict[str, Any]] = {  # to the arguments of their models
    **{task: {} for task in REGISTRY},
    "classifier": {"labels": ["bad", "good"]},
    "token_classifier": {"labels": ["O", "B-A", "I-A"], "crf": True, "scheme": "iob2"},
    "embedder": {"objective": "softmax", "labels": ["differs", "follows"]},
}
TEXTS = ["the film was good", "bad"]


def make(task: str, family: str, dtype: str = "float32", remat: bool = False) -> Any:
    """Makes a model with random weights, the same ones in each call."""
    keras.utils.set_random_seed(0)
    traits = MODULES[family].TRAITS | SMALL | FAMILIES[family]
    if REGISTRY[task].pooled or TASKS[task].get("pooling") == "pooled":
        traits |= {"pooler": True}
    model = kb.Encoder(kb.EncoderConfig(**traits), dtype=dtype, remat=remat)
    if task != "encoder":
        preprocessor = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(TOKENS)), 16)
        model = REGISTRY[task].model_class(model, preprocessor=preprocessor, **TASKS[task])
    generator = np.random.default_rng(0)
    for weight in model.weights:  # biases, too
        noise = generator.normal(0, 0.1, weight.shape)
        weight.assign(keras.ops.convert_to_numpy(weight).astype("float32") + noise)
    return model


def ids(task: str) -> dict[str, np.ndarray]:
    """Returns a batch of ids."""
    shape = (2, 3, 9) if task == "multiple_choice" else (3, 9)
    generator = np.random.default_rng(1)
    mask = np.arange(9) < generator.integers(1, 10, (*shape[:-1], 1))
    inputs = {
        "token_ids": generator.integers(5, 40, shape) * mask,
        "segment_ids": generator.integers(0, 2, shape) * mask,
        "padding_mask": mask,
    }
    return {name: array.astype("int32") for name, array in inputs.items()}


def outputs(found: Any) -> list[np.ndarray]:
    """Returns outputs as float32 arrays."""
    return [np.array(keras.ops.cast(value, "float32")) for value in keras.tree.flatten(found)]


def check_equal(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    """Checks that two structures of outputs differ at most by a tolerance."""
    for one, other in zip(outputs(found), outputs(expected), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def config(task: str, family: str, folder: Path) -> None:
    """`from_config` and `clone_model` make the same model."""
    model, inputs = make(task, family), ids(task)
    values = json.dumps(model.get_config(), sort_keys=True)
    for copy in (
        type(model).from_config(json.loads(values)),
        keras.models.clone_model(model),
    ):
        assert json.dumps(copy.get_config(), sort_keys=True) == values
        copy.set_weights(model.get_weights())
        check_equal(copy(inputs), model(inputs))


def names(task: str, family: str, folder: Path) -> None:
    """Paths of weights differ from each other, and do not depend on other models."""
    model = make(task, family)
    paths = [weight.path for weight in model.weights]
    assert len(set(paths)) == len(paths)
    assert [weight.path for weight in make(task, family).weights] == paths
    copy = type(model).from_config(model.get_config())
    assert [weight.path for weight in copy.weights] == paths


def keras_file(task: str, family: str, folder: Path) -> None:
    """A `.keras` file holds the whole model, also a compiled one."""
    model, inputs = make(task, family), ids(task)
    model.compile("adam", "mse")
    loaded = saved(model, folder)
    assert loaded.get_config() == model.get_config()
    assert loaded.compiled
    check_equal(loaded(inputs), model(inputs))


def saved(model: Any, folder: Path) -> Any:
    """Returns the model after `save` and `load_model`."""
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


def policy(name: str, tolerance: float) -> Callable[[str, str, Path], None]:
    """Makes the check of a dtype policy: values near to float32, dtypes, the `.keras` file."""

    def check(task: str, family: str, folder: Path) -> None:
        model, inputs = make(task, family, name), ids(task)
        assert {weight.dtype for weight in model.weights if "crf" not in weight.path} == {
            model.dtype_policy.variable_dtype
        } | ({"float32"} if model.get_config().get("objective") else set())
        wanted = model.compute_dtype if task == "encoder" else "float32"
        for value in keras.tree.flatten(model(inputs)):
            assert keras.backend.standardize_dtype(value.dtype) == wanted
        check_equal(model(inputs), make(task, family)(inputs), tolerance)
        loaded = saved(model, folder)
        assert loaded.dtype_policy.name == name
        check_equal(loaded(inputs), model(inputs))

    return check


def quantization(task: str, family: str, folder: Path) -> None:
    """A model of int8 is near to float32, and its `.keras` file has equal outputs."""
    model, inputs = make(task, family), ids(task)
    expected = model(inputs)
    model.quantize("int8")
    dense = [x for x in model._flatten_layers() if isinstance(x, keras.layers.Dense)]
    assert {layer.quantization_mode for layer in dense} == {"int8"}
    check_equal(model(inputs), expected, 0.1)
    loaded = saved(model, folder)
    assert [weight.dtype for weight in loaded.weights] == [w.dtype for w in model.weights]
    check_equal(loaded(inputs), model(inputs))


def export(task: str, family: str, folder: Path) -> None:
    """`export` needs no signature and no call, and the SavedModel takes batches of all shapes."""
    model, inputs = make(task, family), ids(task)
    model.export(folder / "saved_model", verbose=False)
    artifact = tf.saved_model.load(str(folder / "saved_model"))
    if model.config.num_segments <= 1:
        del inputs["segment_ids"]
    shorter = {name: array[..., :7] for name, array in inputs.items()}
    for batch in (inputs, shorter):
        check_equal(artifact.serve(batch), model(batch), 1e-6)


def summary(task: str, family: str, folder: Path) -> None:
    """The summary of a model that was never called has shapes and numbers of parameters."""
    model, lines = make(task, family), list[str]()
    model.summary(expand_nested=True, print_fn=lines.append)
    text = "".join(lines)
    assert "?" not in text
    assert "unbuilt" not in text
    assert f"(None, None, {SMALL['hidden_size']})" in text
    assert f" Total params: {model.count_params():,} " in text


def strings(task: str, family: str, folder: Path) -> None:
    """Texts have the same outputs as the ids that the preprocessor makes of them."""
    if task == "encoder":
        model = make("embedder", family)
        found = model.encoder(model.preprocessor(keras.ops.convert_to_tensor(TEXTS)))
        check_equal(found, model.encoder(model.preprocessor(TEXTS)))
        return
    model = make(task, family)
    if task == "multiple_choice":
        texts: Any = (TEXTS, [["good", "bad"], ["the film", "was"]])
        columns = tuple(np.array(column, object) for column in texts)
    else:
        texts, columns = TEXTS, (np.array(TEXTS, object),)
    check_equal(model.predict(texts, verbose=0), model(model.inputs_of_texts(columns)), 1e-6)


def remat(task: str, family: str, folder: Path) -> None:
    """Gradients with and without rematerialization are equal, also with dropout, in a graph."""
    found = []
    for option in (False, True):
        model, inputs = make(task, family, remat=option), ids(task)

        @tf.function(autograph=False)
        def gradients(model: Any = model, inputs: Any = inputs) -> Any:
            with tf.GradientTape() as tape:
                values = keras.tree.flatten(model(inputs, training=True))
                loss = sum(tf.reduce_mean(tf.square(value - 0.5)) for value in values)
            weights = [weight.value for weight in model.trainable_weights]
            return tape.gradient(loss, weights, unconnected_gradients="zero")

        found.append([gradients(), gradients()])  # other masks in the second step
    check_equal(found[1], found[0], 1e-6)
    assert max(np.abs(value).max() for value in outputs(found[0])) > 1e-3


CHECKS: dict[str, Callable[[str, str, Path], None]] = {
    "config": config,
    "names": names,
    ".keras": keras_file,
    "mixed_bfloat16": policy("mixed_bfloat16", 0.1),
    "mixed_float16": policy("mixed_float16", 0.02),
    "bfloat16": policy("bfloat16", 0.2),
    "int8": quantization,
    "export": export,
    "summary": summary,
    "strings": strings,
    "remat": remat,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 0 if all checks pass."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--tasks", default=",".join(TASKS))
    options = parser.parse_args(arguments)
    print(f"| family | task | {' | '.join(CHECKS)} |\n|---|---|{'---|' * len(CHECKS)}")
    passed = True
    for family in options.families.split(","):
        for task in options.tasks.split(","):
            cells = [_cell(check, task, family) for check in CHECKS.values()]
            passed = passed and set(cells) == {"yes"}
            print(f"| {family} | {task} | {' | '.join(cells)} |", flush=True)
    return 0 if passed else 1


def _cell(check: Callable[[str, str, Path], None], task: str, family: str) -> str:
    try:
        with tempfile.TemporaryDirectory() as folder:
            check(task, family, Path(folder))
    except Exception as error:
        return f"**{type(error).__name__}: {' '.join(str(error).split())[:60]}**"
    return "yes"


if __name__ == "__main__":
    sys.exit(main())
