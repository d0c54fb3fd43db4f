"""The notebook runs from top to bottom, in a kernel of its own, and shows what it promises."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "bert_from_scratch.ipynb"


@pytest.mark.sweep
def test_notebook(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, 4)
    NotebookClient(
        notebook,
        timeout=2400,  # seconds of each cell; one of them trains
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in shown if output.output_type == "error"]
    displayed = [output.data for output in shown if "data" in output]
    assert sum("image/png" in data for data in displayed) == 2  # curves and map
    assert sum("<iframe" in data.get("text/html", "") for data in displayed) == 1  # attention
    printed = "".join(output.text for output in shown if output.output_type == "stream")
    assert "bank 1.00" in printed or "bank 0.9" in printed  # a mask that it learned to fill
    assert "100.00 %" in printed  # artifacts with the same answers
    assert not list(tmp_path.iterdir())
