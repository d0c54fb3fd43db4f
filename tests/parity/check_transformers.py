"""transformers opens what `tests.parity.write` wrote, without a word, and computes the same.

Runs where torch and transformers are installed; the environment's PARITY names the directory.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file

FOLDERS = sorted(Path(os.environ["PARITY"], "huggingface").iterdir())
TEXTS = ["Plain words, and some more!", "café [naïve] 中文", ""]
INPUTS = {
    "token_ids": "input_ids",
    "segment_ids": "token_type_ids",
    "padding_mask": "attention_mask",
}
OUTPUTS = {
    "sequence_output": "last_hidden_state",
    "pooled_output": "pooler_output",
    "mlm_logits": "prediction_logits",
    "nsp_logits": "seq_relationship_logits",
    "sop_logits": "sop_logits",
}

transformers.utils.logging.disable_progress_bar()


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_folder(folder, capfd, recwarn):
    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    if not hasattr(transformers, architecture):
        pytest.skip(f"transformers has no {architecture}; the files follow its authors' own")
    kind = getattr(transformers, architecture)
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    tensors = load_file(folder / "reference.safetensors")
    inputs = {INPUTS[n[6:]]: torch.tensor(x) for n, x in tensors.items() if n.startswith("input.")}
    with torch.no_grad():
        outputs = model.eval()(**{name: value.long() for name, value in inputs.items()})
    compared, tokens = 0, tensors["input.padding_mask"].astype(bool)
    for name, expected in tensors.items():
        if name.startswith("output."):
            ours = "sop_logits" if "sop_logits" in outputs and "nsp" in name else name[7:]
            actual = outputs[OUTPUTS.get(ours, ours)]
            if folder.name.startswith("deberta") and actual.shape[:2] == tokens.shape:
                actual, expected = actual[tokens], expected[tokens]  # padding is anything there
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5, err_msg=name)
            compared += 1
    assert compared
    assert capfd.readouterr() == ("", "")
    assert not [str(warning.message) for warning in recwarn]
    if "texts.token_ids" not in tensors:
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding="max_length", truncation=True, return_tensors="np")
    for ours, theirs in INPUTS.items():
        assert np.array_equal(batch[theirs], tensors[f"texts.{ours}"]), ours
    assert capfd.readouterr() == ("", "")
    assert not [str(warning.message) for warning in recwarn]


def test_labels_and_problem_types():
    for folder in FOLDERS:
        config = transformers.AutoConfig.from_pretrained(folder)
        if folder.name in ("classifier", "multi-label", "token_classifier"):
            assert config.id2label == {0: "no", 1: "maybe", 2: "yes"}
            assert config.label2id == {"no": 0, "maybe": 1, "yes": 2}
    problems = {
        folder.name: transformers.AutoConfig.from_pretrained(folder).problem_type
        for folder in FOLDERS
    }
    assert problems["classifier"] == "single_label_classification"
    assert problems["multi-label"] == "multi_label_classification"
    assert problems["regression"] == "regression"


def test_pipelines_run():
    directory = FOLDERS[0].parent
    for name, task, text in (
        ("classifier", "text-classification", "some words"),
        ("token_classifier", "token-classification", "some words"),
        ("masked-lm", "fill-mask", "some [MASK]"),
    ):
        assert transformers.pipeline(task, model=str(directory / name))(text)
