"""A part of the matrix, and what it does about an artifact that differs."""

import numpy as np
import pytest

from . import matrix


@pytest.mark.slow
def test_a_part_of_it(capsys):
    assert matrix.main(["--families", "albert", "--tasks", "token_classifier"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| model | task | saved_model | tflite | onnx |"
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells[:2] == ["albert", "token_classifier"]
    assert all(0 <= float(cell) <= 1e-5 for cell in cells[2:])


@pytest.mark.parametrize(("error", "code"), [(0, 0), (2e-6, 0), (1e-4, 1)])
def test_what_differs_fails(error, code, monkeypatch, capsys):
    written = []

    def load(path):
        assert written.pop() == path
        return lambda ids: {"logits": np.asarray(model(ids)) + np.float32(error)}

    monkeypatch.setattr(
        matrix, "FORMATS", {"onnx": (lambda model, path: written.append(path), load)}
    )
    _, _, model = next(matrix.small_models(["bert"], ["masked_lm"]))
    monkeypatch.setattr(matrix, "small_models", lambda *names: iter([("bert", "masked_lm", model)]))
    assert matrix.main([]) == code
    assert ("**too large**" in capsys.readouterr().out) == bool(code)
