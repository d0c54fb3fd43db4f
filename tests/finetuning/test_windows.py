"""Fine-tuning of models that read long texts in windows."""

import dataclasses

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.errors import InputError
from keras_bert.finetuning import Recipe, evaluate, fine_tune, new_model, predict, report
from keras_bert.finetuning.baseline import frozen_vectors
from tests.finetuning import tiny
from tests.finetuning.test_defaults import chosen

RECIPE = Recipe(epochs=8, batch_size=8, learning_rate=1e-2, baseline=False)


def late_opinions(count=32):
    """The last word decides, after a number of words that differs between texts."""
    opinions = tiny.opinions(count)
    texts = [f"{'a film ' * (14 + i % 3)}{text}" for i, text in enumerate(opinions.texts)]
    return dataclasses.replace(opinions, texts=tuple(texts))


def windowed(**arguments):
    model = tiny.classifier({**tiny.NO_DROPOUT}, dropout=0.0, pooling="mean")
    return new_model(
        "classifier", model, late_opinions(), pooling="mean", windows="max", **arguments
    )


def test_windows_learn_what_cut_texts_do_not_show(tmp_path, caplog):
    train, scores = late_opinions(), {}
    for windows in ("max", None):
        model = windowed() if windows else tiny.classifier(tiny.NO_DROPOUT, pooling="mean")
        fine_tune(model, train, recipe=RECIPE, output=tmp_path / str(windows), verbose=0)
        loaded = kb.load(tmp_path / str(windows) / "model")
        assert loaded.windows == windows
        scores[windows] = evaluate(loaded, train)["accuracy"]
    assert scores["max"] == 1.0
    assert scores[None] < 0.8
    cut = [message for message in caplog.messages if "cut" in message]
    assert len(cut) == 2  # one of `fine_tune` and one of `evaluate`, both without windows
    assert set(cut) == {
        "32 of 32 texts are longer than 16 tokens and are cut; set windows='mean' or a larger "
        "sequence_length."
    }


def test_one_warning_counts_all_splits(caplog):
    model, long = tiny.classifier(), late_opinions(8)
    recipe = Recipe(epochs=1)  # with the frozen baseline
    fine_tune(model, long, tiny.opinions(24), long, recipe=recipe, verbose=0)
    (warning,) = [message for message in caplog.messages if " cut" in message]
    assert warning.startswith("16 of 40 texts are longer than 16 tokens and are cut")
    for measure in (evaluate, report, predict):
        caplog.clear()
        measure(model, long)
        assert [message.split(" tokens")[0] for message in caplog.messages] == [
            "8 of 8 texts are longer than 16"
        ]


def test_the_choices_tell_of_windows():
    data = tiny.examples([" ".join(["good"] * n) for n in (10, 20, 90)], ["good"] * 3)
    _, reasons = chosen(model=windowed(), data=data)
    assert reasons["sequence_length"].endswith("; 2 of 3 are longer and are read in windows")
    assert reasons["windows"] == "the max of the vectors of at most 32 windows"
    _, reasons = chosen(model=windowed(max_windows=4), data=data)
    assert reasons["sequence_length"].endswith("read in windows, 1 of them cut to 4 windows")
    long = tiny.examples([" ".join(["good"] * 300)], ["good"])
    assert chosen(model=windowed(), data=long)[0].batch_size == 16
    assert chosen(model=windowed(max_windows=4), data=long)[0].batch_size == 32


def test_the_baseline_reads_the_classifiers_vectors():
    model, data = windowed(), late_opinions(4)
    inputs = model.text_preprocessor(list(data.texts))
    expected = np.asarray(model.vectors(inputs))
    np.testing.assert_allclose(frozen_vectors(model, data), expected, rtol=0, atol=1e-5)


def test_pairs_have_no_windows():
    pairs = tiny.examples(["good"] * 4, ["good", "bad"] * 2, pairs=["bad"] * 4)
    with pytest.raises(InputError, match=r"windows is 'max', but memory.csv has pairs"):
        new_model("classifier", tiny.encoder(), pairs, windows="max")


def test_embedders_learn_from_long_texts():
    texts = [f"{'a film ' * 10}{end}" for end in ("good", "bad", "fine", "poor")]
    pairs = tiny.examples(texts, ["1"] * 4, pairs=texts)
    pairs = dataclasses.replace(pairs, labels=None)
    encoder = tiny.encoder()
    encoder.preprocessor = tiny.preprocessor()
    model = new_model("embedder", encoder, pairs, windows="max", max_windows=4)
    assert (model.windows, model.max_windows) == ("max", 4)
    result = fine_tune(model, pairs, pairs, recipe=RECIPE, verbose=0)
    assert result.validation["accuracy_at_1"] == 1.0
