import json
import subprocess
import sys

import pytest

from keras_bert.errors import InputError
from keras_bert.visualize.curves import plot_runs

pytest.importorskip("matplotlib")


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    rows = [{"event": "validation", "step": 0, "loss": 3.0, "mlm_loss": 3.0, "mlm_accuracy": 0.1}]
    rows += [{"event": "train", "step": s, "loss": 3 - s / 10, "epoch": 0} for s in range(1, 5)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "run" / "log.jsonl").write_text(text + '{"event": "tra')
    return tmp_path / "run"


def test_a_picture(run, tmp_path):
    plot_runs({"a": run, "b": run}, tmp_path / "all.png", levels={"loss": {"unigram": 2.5}})
    plot_runs({"a": run}, tmp_path / "one.png", measures=["loss"])
    sizes = [(tmp_path / name).read_bytes()[16:24] for name in ("all.png", "one.png")]
    widths = [int.from_bytes(size[:4], "big") for size in sizes]
    assert widths[0] == 3 * widths[1]


def test_nothing_to_draw(run, tmp_path):
    with pytest.raises(InputError, match="no log"):
        plot_runs({"a": tmp_path}, tmp_path / "a.png")
    with pytest.raises(InputError, match="measure 'losses'; choose from loss, mlm_"):
        plot_runs({"a": run}, tmp_path / "a.png", measures=["loss", "losses"])
    with pytest.raises(InputError, match="give a name that ends in .png"):
        plot_runs({"a": run}, tmp_path / "a.docx")
    (run / "log.jsonl").write_text('{"event": "train", "step": 1}\n')
    with pytest.raises(InputError, match="no losses"):
        plot_runs({"a": run}, tmp_path / "a.png")


def test_a_file_that_is_no_log(run, tmp_path):
    for content in (b"\xff\xfe", b"5\n"):
        (run / "log.jsonl").write_bytes(content)
        with pytest.raises(InputError, match=r"Cannot read .*log\.jsonl"):
            plot_runs({"a": run}, tmp_path / "a.png")


def test_curves_need_no_tensorflow():
    code = (
        "import sys, keras_bert.visualize.curves\n"
        "assert not {'keras', 'tensorflow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
