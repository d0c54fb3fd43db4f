import itertools
import json

import numpy as np
import pytest

from keras_bert import visualize
from keras_bert.errors import InputError
from keras_bert.visualize.curves import named_runs
from keras_bert.visualize.maps import principal_components
from tests.finetuning import tiny

pytest.importorskip("matplotlib")
TEXTS = [f"text number {i}, which says ${i}$" for i in range(12)]


def vectors(number=12, width=7):
    return np.random.default_rng(0).normal(size=(number, width)) * np.arange(1, width + 1)


def test_components_are_those_of_scikit_learn():
    decomposition = pytest.importorskip("sklearn.decomposition")
    reference = decomposition.PCA(2).fit(vectors())
    points, shares = principal_components(vectors())
    expected = reference.transform(vectors())
    expected *= np.sign((points * expected).sum(axis=0))
    np.testing.assert_allclose(points, expected, atol=1e-9)
    np.testing.assert_allclose(shares, reference.explained_variance_ratio_)


def test_components_do_not_depend_on_the_order():
    order = np.random.default_rng(1).permutation(12)
    points, _ = principal_components(vectors()[order])
    np.testing.assert_allclose(points, principal_components(vectors())[0][order], atol=1e-9)


@pytest.mark.parametrize("shape", [(2, 7), (12, 1), (2, 1)])
def test_few_vectors_or_numbers(shape):
    points, shares = principal_components(vectors(*shape))
    assert points.shape == (shape[0], 2)
    np.testing.assert_allclose(shares, [1, 0], atol=1e-12)
    points, shares = principal_components(np.ones(shape))
    assert not points.any()
    assert not shares.any()


def test_a_map_with_labels():
    labels = ["a", "b", "$c$"] * 4
    figure = visualize.embedding_map(vectors(), TEXTS, labels)
    (axis,) = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "$c$"]
    points, _ = principal_components(vectors())
    for number, collection in enumerate(axis.collections):
        np.testing.assert_allclose(collection.get_offsets(), points[number::3])
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_texts_and_labels_of_any_kind_are_written():
    texts, labels = ["two\nlines", "\ud800 lone", "$c"], ["_hidden", "", "\ud800"]
    figure = visualize.embedding_map(vectors(3), texts, labels)
    assert [text.get_text() for text in figure.axes[0].texts] == ["two lines", "? lone", "$c"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["_hidden", "", "?"]
    figure._repr_png_()


def test_names_of_points_do_not_cover_each_other():
    figure = visualize.embedding_map(vectors(), TEXTS)
    figure.draw_without_rendering()
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.texts] == TEXTS
    boxes = [text.get_window_extent() for text in axis.texts]
    assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))
    frame = axis.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_many_points_have_no_names():
    (axis,) = visualize.embedding_map(vectors(41), ["text"] * 41).axes
    assert not axis.texts
    assert sum(len(collection.get_offsets()) for collection in axis.collections) == 41


def test_a_map_of_a_model():
    model = tiny.classifier({"hidden_dropout": 0.0})
    texts = ["the film was good", "a bad book", "poor"]
    (axis,) = visualize.embedding_map(model, texts).axes
    inputs = model.preprocessor(texts)
    mask = inputs["padding_mask"].numpy()[..., np.newaxis]
    means = (model.encoder(inputs)["sequence_output"] * mask).numpy().sum(1) / mask.sum(1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    distances = np.linalg.norm(means[:, np.newaxis] - means, axis=-1)  # of 3 points: as in a plane
    drawn = np.asarray(axis.collections[0].get_offsets())
    on_map = np.linalg.norm(drawn[:, np.newaxis] - drawn, axis=-1)
    np.testing.assert_allclose(on_map, distances, atol=1e-5)


def diverged():
    model = tiny.classifier()
    model.set_weights([np.full_like(weights, np.nan) for weights in model.get_weights()])
    return model


def test_refusals_of_maps():
    for arguments, message in (
        ((vectors(1), ["one"]), "two texts or more, not 1"),
        ((vectors(), TEXTS, ["a"]), "1 labels for 12 texts"),
        ((vectors(3), TEXTS), r"vectors \[12, H\].* not an array of shape \[3, 7\]"),
        ((vectors() * np.nan, TEXTS), "vectors are not finite"),
        ((diverged(), TEXTS), "vectors are not finite"),
        (([["a"], ["b", "c"]], TEXTS[:2]), "a model of keras_bert or vectors .* this list"),
        ((vectors(), "film"), "two texts or more, not 1"),
        ((vectors(2), ["film", 7]), "must be a string, not a int"),
        ((tiny.encoder(), TEXTS), "has no preprocessor"),
    ):
        with pytest.raises(InputError, match=message):
            visualize.embedding_map(*arguments)


@pytest.fixture
def runs(tmp_path):
    for name, loss in (("one", 3.0), ("two", 2.0)):
        (tmp_path / name).mkdir()
        rows = [{"event": "train", "step": step, "loss": loss / step} for step in (1, 2)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / name / "log.jsonl").write_text(text)
    return tmp_path


def test_curves_of_runs(runs):
    both = {"first": runs / "one", "second": runs / "two"}
    for given, names in (
        (runs / "one", ["one"]),
        ([runs / "one", str(runs / "two")], ["one", "two"]),
        (both, ["first", "second"]),
    ):
        (axis,) = visualize.pretraining_curves(given).axes
        assert axis.get_title() == "loss"
        assert [line.get_label() for line in axis.get_lines()] == names
        np.testing.assert_allclose(axis.get_lines()[0].get_xydata(), [[1, 3], [2, 1.5]])
    figure = visualize.pretraining_curves(both, levels={"loss": {"baseline": 2.5}})
    assert [line.get_label() for line in figure.axes[0].get_lines()][-1] == "baseline"
    with pytest.raises(InputError, match="no log"):
        visualize.pretraining_curves(runs)


def test_runs_of_any_name_are_in_the_legend(runs):
    both = {"_first": runs / "one", "$c$": runs / "two"}
    (axis,) = visualize.pretraining_curves(both, levels={"loss": {"_level": 2.5}}).axes
    names = axis.get_legend().get_texts()
    assert [name.get_text() for name in names] == ["_first", "$c$", "_level"]
    assert not any(name.get_parse_math() for name in names)


def test_runs_of_one_name_are_told_apart(runs):
    there = [runs / "one", runs / "two" / ".." / "one"]
    assert list(named_runs(there)) == [str(each) for each in there]
