import itertools
import sys

import numpy as np
import pytest

from keras_bert.errors import InputError
from keras_bert.visualize import finetuning as plots
from keras_bert.visualize.finetuning import confusion_matrix, plot_confusion, plot_curves
from keras_bert.visualize.plotting import check_picture

pytest.importorskip("matplotlib")
HISTORY = [
    {"epoch": e, "loss": 1 / e, "validation_loss": 2 / e, "validation_f1": 1 - 1 / e, "x": "text"}
    for e in (1, 2, 3)
]


@pytest.fixture
def drawn(monkeypatch):
    """The figures, in place of their files."""
    figures = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: figures.append(figure))
    return figures


def random_labels(labels, size=500):
    random = np.random.default_rng(0)
    targets = random.choice(labels, size)
    return targets, np.where(random.random(size) < 0.8, targets, random.choice(labels, size))


def names_of(count):
    words = ["transfer", "card_payment_not_recognised", "O", "B-PER", "$x^2$", "y" * 60]
    return [f"{words[index % 6]}_{index}" if index > 1 else words[index] for index in range(count)]


@pytest.mark.parametrize("count", [2, 3, 8, 30, 100])
def test_the_names_of_labels_can_be_read(drawn, count):
    labels = names_of(count)
    plot_confusion(*random_labels(labels), labels, "unused.png")
    figure = drawn[0]
    figure.draw_without_rendering()
    axis = figure.axes[0]
    for ticks in (axis.get_xticklabels(), axis.get_yticklabels()):
        assert len(ticks) in ((count,) if count <= 30 else (30, 31))
        boxes = [tick.get_window_extent() for tick in ticks]
        assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))
        for box in boxes:
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.width > 0


def test_counts_stand_in_their_cells(drawn):
    targets, predictions = ["a", "a", "a", "b"], ["a", "a", "b", "b"]
    plot_confusion(targets, predictions, ["a", "b"], "unused.png")
    texts = {text.get_position(): text.get_text() for text in drawn[0].axes[0].texts}
    assert texts == {(0, 0): "2", (1, 0): "1", (1, 1): "1"}  # (predicted, true)


def test_of_many_labels_the_most_confused_are_drawn(drawn):
    labels = [f"label {index}" for index in range(100)]
    targets, predictions = labels * 3, labels * 3
    for target, prediction, times in ((7, 90, 2), (90, 7, 1), (3, 50, 3), (50, 4, 1)):
        targets += [labels[target]] * times
        predictions += [labels[prediction]] * times
    plot_confusion(targets, predictions, labels, "unused.png", most_labels=4)
    axis = drawn[0].axes[0]
    names = [tick.get_text() for tick in axis.get_yticklabels()]
    assert names == ["label 3", "label 7", "label 50", "label 90"]
    assert [tick.get_text() for tick in axis.get_xticklabels()] == [*names, "(other labels)"]
    assert axis.get_title() == "4 of 100 labels: the labels that are confused most"
    texts = {text.get_position(): text.get_text() for text in axis.texts}
    right = {(index, index): "3" for index in range(4)}
    wrong = {(3, 1): "2", (1, 3): "1", (2, 0): "3", (4, 2): "1"}  # (predicted, true)
    assert texts == right | wrong
    height, width = axis.get_images()[0].get_array().shape
    assert (height, width) == (4, 5)


def test_a_picture_of_many_labels_keeps_its_size(drawn):
    labels = [f"label {index}" for index in range(150)]
    plot_confusion(*random_labels(labels, 3000), labels, "unused.png")
    assert max(drawn[0].get_size_inches()) < 16
    plot_confusion(labels, labels, labels, "unused.png")  # no errors
    assert len(drawn[1].axes[0].get_yticklabels()) == 30
    with pytest.raises(InputError, match="most_labels is 1, but must be 2 or more"):
        plot_confusion(labels, labels, labels, "unused.png", most_labels=1)


def test_the_matrix_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    labels = names_of(7)
    targets, predictions = random_labels(labels[:6])
    expected = metrics.confusion_matrix(targets, predictions, labels=labels)
    np.testing.assert_array_equal(confusion_matrix(targets, predictions, labels), expected)
    with pytest.raises(InputError, match="'z', but must be one of"):
        confusion_matrix(["a"], ["z"], ["a", "b"])


def test_curves_of_training_and_validation(drawn):
    plot_curves([*HISTORY, {"epoch": 4, "loss": float("nan")}], "unused.png")
    panels = {axis.get_title(): axis.get_lines() for axis in drawn[0].axes}
    assert {title: [line.get_label() for line in lines] for title, lines in panels.items()} == {
        "loss": ["training", "validation"],
        "f1": ["validation"],
    }
    np.testing.assert_allclose(panels["loss"][1].get_xydata(), [[1, 2], [2, 1], [3, 2 / 3]])


def test_pictures_appear_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "curves.png"
    plot_curves(HISTORY, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    before = path.read_bytes()
    with pytest.raises(InputError, match="no numbers to draw"):
        plot_curves([], path)
    with pytest.raises(InputError, match=r"a name that ends in \.png"):
        plot_confusion(["a"], ["a"], ["a"], tmp_path / "matrix.docx")
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["curves.png"]
    assert [file.name for file in tmp_path.iterdir()] == ["new"]


def test_without_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in (
        lambda path: plot_curves(HISTORY, path),
        lambda path: plot_confusion(["a"], ["a"], ["a"], path),
        check_picture,
    ):
        with pytest.raises(InputError, match=r'pip install -e "\.\[plot\]"'):
            draw(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
