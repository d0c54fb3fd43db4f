"""Models that transformers wrote, and what it computed with them."""

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

import keras_bert as kb

FIXTURES = Path(__file__).parent.parent / "fixtures" / "huggingface"
FOLDERS = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
# BERT with every head, and what is special about each other family; RoBERTa's tables also serve
# XLM-R and CamemBERT.
QUICK = [
    name
    for name in FOLDERS
    if name.startswith("bert-")
    or ("-model" in name and not name.startswith(("xlm-roberta", "camembert")))
    or name.endswith(("-masked-lm", "-pretraining"))
]
OUTPUTS = {  # theirs to the key of ours
    "last_hidden_state": "sequence_output",
    "pooler_output": "pooled_output",
    "prediction_logits": "mlm_logits",
    "seq_relationship_logits": "nsp_logits",
    "sop_logits": "nsp_logits",
    "start_logits": "start_logits",
    "end_logits": "end_logits",
}


def reference(folder):
    """Inputs, outputs and hidden states as transformers had them."""
    tensors = load_file(FIXTURES / folder / "reference.safetensors")
    inputs = {
        "token_ids": tensors["input.input_ids"],
        "padding_mask": tensors["input.attention_mask"],
    }
    if "input.token_type_ids" in tensors:
        inputs["segment_ids"] = tensors["input.token_type_ids"]
    outputs = {n.split(".")[1]: x for n, x in tensors.items() if n.startswith("output.")}
    states = [tensors[n] for n in sorted(tensors) if n.startswith("hidden_states")]
    return inputs, outputs, states


def weights(directory):
    return load_file(Path(directory) / "model.safetensors")


def differences(model, folder):
    """Every output and hidden state to the largest difference from the reference."""
    inputs, outputs, states = reference(folder)
    ours = model(inputs)
    encoder = model if isinstance(model, kb.Encoder) else model.encoder
    flat = {name: value.reshape(-1, value.shape[-1]) for name, value in inputs.items()}
    hidden = encoder(flat, return_hidden_states=True)["hidden_states"]
    tokens = inputs["padding_mask"] == 1
    # Where padding attends to nothing, or no token is near it, its outputs do not matter.
    if not folder.startswith(("deberta", "modernbert")):
        tokens = np.ones_like(tokens)

    def largest(actual, expected, tokens):
        actual = np.asarray(actual)
        assert actual.shape == expected.shape
        if actual.shape[: tokens.ndim] == tokens.shape:
            actual, expected = actual[tokens], expected[tokens]
        return np.abs(actual - expected).max()

    found = {
        name: largest(ours[OUTPUTS[name]] if isinstance(ours, dict) else ours, expected, tokens)
        for name, expected in outputs.items()
    }
    tokens = tokens.reshape(-1, tokens.shape[-1])
    for index, (actual, expected) in enumerate(zip(hidden, states, strict=True)):
        found[f"state {index}"] = largest(actual, expected, tokens)
    return found


def check(model, folder):
    assert {name: gap for name, gap in differences(model, folder).items() if not gap <= 1e-5} == {}


def copy(folder, tmp_path, change=None, **configuration):
    """A copy of a fixture with another configuration and other tensors."""
    shutil.copytree(FIXTURES / folder, tmp_path / "copy")
    path = tmp_path / "copy" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | configuration))
    if change:
        tensors = weights(tmp_path / "copy")
        save_file(change(tensors), tmp_path / "copy" / "model.safetensors")
    return tmp_path / "copy"


def lacking(folder, tmp_path, *fields):
    """A copy of a fixture whose configuration does not say something."""
    path = copy(folder, tmp_path) / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({name: values[name] for name in values if name not in fields}))
    return path.parent
