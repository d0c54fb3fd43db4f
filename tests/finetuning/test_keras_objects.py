"""Callbacks, optimizers, losses and metrics of the user."""

import json
import math
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

import keras_bert as kb
from keras_bert.errors import InputError
from keras_bert.finetuning import (
    ChoiceExamples,
    Recipe,
    TaggedExamples,
    evaluate,
    fine_tune,
)
from keras_bert.finetuning.batching import batches, plan_batches
from keras_bert.finetuning.jobs import job_of
from keras_bert.finetuning.keras_objects import KerasObjects
from keras_bert.optimizers.keras_adamw import KerasAdamW
from tests.finetuning import tiny
from tests.marks import others_swept

RECIPE = Recipe(epochs=3, batch_size=8, baseline=False)


def changed(**options):
    return RECIPE.model_copy(update=options)


def run(model=None, train=None, validation=None, recipe=RECIPE, **options):
    """Fine-tunes a classifier without dropout; returns the model and the result."""
    model = model or tiny.classifier(tiny.NO_DROPOUT)
    train = train or tiny.opinions(30)
    return model, fine_tune(model, train, validation, recipe=recipe, verbose=0, **options)


class Weights(keras.callbacks.Callback):
    """The weights after each step."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append([v.numpy() for v in self.model.trainable_variables])


def assert_equal(one, two, atol=0.0):
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, atol=atol, rtol=0)


def test_an_optimizer_sees_the_gradients_of_the_planned_batches():
    """Gradient descent, step by step, written out."""
    model = tiny.classifier(tiny.NO_DROPOUT)
    train, job = tiny.opinions(30), job_of(model)
    rows = job.rows(model, train)
    targets = job.targets(model, train, rows)
    plan = plan_batches(rows, targets, batch_size=8, epochs=range(3), seed=0)
    for x, y, _ in batches(rows, targets, plan):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        variables = [variable.value for variable in model.trainable_variables]
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.1 * gradient)
    found, result = run(optimizer=keras.optimizers.SGD(0.1))
    assert isinstance(found.optimizer, keras.optimizers.SGD)
    assert_equal(found.get_weights(), model.get_weights(), atol=1e-5)
    assert result.best_epoch == 3


def test_the_recipe_chooses_no_rate_for_an_optimizer(caplog, tmp_path):
    with caplog.at_level("INFO", "keras_bert.finetuning"):
        data = tiny.opinions(20)
        run(
            validation=data,
            recipe=Recipe(epochs=2),
            optimizer=keras.optimizers.SGD(1e-6),
            output=tmp_path / "out",
        )
    assert "learning_rate" not in caplog.text
    assert "batch_size" in caplog.text
    assert "or a higher learning rate of the optimizer." in caplog.text  # nothing was learned
    options = json.loads((tmp_path / "out" / "metrics.json").read_text())["recipe"]
    assert options["optimizer"]["class_name"] == "SGD"
    assert options["optimizer"]["learning_rate"] == pytest.approx(1e-6)
    assert options["batch_size"] == 32
    assert not {"learning_rate", "warmup", "weight_decay"} & set(options)
    card = (tmp_path / "out" / "model" / "README.md").read_text()
    assert "SGD" in card
    assert "warmup" not in card


def test_a_function_gets_the_schedule_of_the_recipe():
    schedules = []

    def make(schedule):
        schedules.append(schedule)
        return keras.optimizers.Lion(schedule)

    recipe = changed(learning_rate=1e-3, warmup=0.25)
    model, _ = run(recipe=recipe, optimizer=make)
    assert isinstance(model.optimizer, keras.optimizers.Lion)
    (schedule,) = schedules
    rates = [float(schedule(step)) for step in range(13)]
    expected = [1e-3 * min(step / 3, (12 - step) / 9) for step in range(13)]  # 12 updates
    np.testing.assert_allclose(rates, expected, atol=1e-9)
    classes = [keras.optimizers.Lion, lambda rate: keras.optimizers.Lion(rate)]
    for optimizer in classes:
        assert_equal(run(recipe=recipe, optimizer=optimizer)[0].get_weights(), model.get_weights())


@pytest.mark.parametrize("make", [keras.optimizers.SGD, KerasAdamW])
def test_averaged_weights_are_measured_and_saved(make, tmp_path):
    data, momentum = tiny.opinions(30), 0.8
    own, plain = Weights(), Weights()
    model, result = run(
        optimizer=make(5e-2, use_ema=True, ema_momentum=momentum),
        callbacks=[own],
        validation=data,
        test=data,
        output=tmp_path / "out",
    )
    run(optimizer=make(5e-2), callbacks=[plain], validation=data)
    assert len(own.steps) == len(plain.steps) == 12
    for one, two in zip(own.steps, plain.steps, strict=True):  # measuring changes nothing
        assert_equal(one, two)
    averages, losses = [np.zeros_like(value) for value in plain.steps[0]], []
    for number, step in enumerate(plain.steps):
        share = momentum if number else 0.0
        averages = [share * a + (1 - share) * v for a, v in zip(averages, step, strict=True)]
        if number % 4 == 3:
            expected = tiny.classifier(tiny.NO_DROPOUT)
            for variable, average in zip(expected.trainable_variables, averages, strict=True):
                variable.assign(average)
            losses.append(evaluate(expected, data)["loss"])
    found = [entry["validation_loss"] for entry in result.history]
    assert found == pytest.approx(losses, abs=1e-5)
    assert result.test == pytest.approx(result.validation)
    assert evaluate(kb.load(tmp_path / "out" / "model"), data) == pytest.approx(result.validation)
    assert result.validation["loss"] == found[result.best_epoch - 1]
    # Without validation, the model has the last averages.
    model, _ = run(optimizer=make(5e-2, use_ema=True, ema_momentum=momentum))
    assert_equal([v.numpy() for v in model.trainable_variables], averages, atol=1e-5)


@pytest.mark.slow
def test_averages_with_a_scaled_loss():
    model = tiny.classifier({**tiny.NO_DROPOUT, "dtype": "mixed_float16"})
    recipe, data = changed(epochs=12), tiny.opinions(30)
    optimizer = KerasAdamW(1e-2, use_ema=True, ema_momentum=0.5)
    _, result = run(model, validation=data, recipe=recipe, optimizer=optimizer)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert result.validation["accuracy"] > 0.9
    assert evaluate(model, data)["loss"] == pytest.approx(result.validation["loss"], rel=1e-2)


class HalvesTheRate(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        rate = self.model.optimizer.learning_rate
        rate.assign(rate * 0.5)


def interrupted(monkeypatch, epoch, **options):
    with tiny.interrupted(monkeypatch, epoch):
        run(**options)


RESUMED = {
    "rate": lambda: {
        "optimizer": keras.optimizers.Adam(1e-2),
        "callbacks": [HalvesTheRate()],
    },
    "averages": lambda: {"optimizer": KerasAdamW(1e-2, use_ema=True, ema_momentum=0.8)},
    "schedule": lambda: {"optimizer": lambda rate: keras.optimizers.Lion(rate)},
    "loss and metrics": lambda: {
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True, name="own"),
        "metrics": [keras.metrics.SparseTopKCategoricalAccuracy(1, name="top")],
    },
}


@pytest.mark.parametrize(
    ("name", "validate", "epoch"),
    others_swept(
        [
            ("averages", True, 2),
            ("averages", True, 3),
            ("averages", False, 3),
            ("rate", True, 2),
            ("rate", False, 3),
            ("schedule", False, 2),
            ("loss and metrics", True, 2),
        ]
    ),
)
def test_an_interrupted_run_goes_on(name, validate, epoch, tmp_path, monkeypatch):
    options = {"validation": tiny.opinions(20) if validate else None}
    whole, result = run(**options, **RESUMED[name](), output=tmp_path / "whole")
    interrupted(monkeypatch, epoch, **options, **RESUMED[name](), output=tmp_path / "out")
    keras.optimizers.Adam(1e-3)  # the names of later optimizers have another number
    again, found = run(**options, **RESUMED[name](), output=tmp_path / "out")
    assert_equal(again.get_weights(), whole.get_weights())
    assert found == result
    saved = [load_file(tmp_path / n / "model" / "weights.safetensors") for n in ("whole", "out")]
    assert saved[0].keys() == saved[1].keys()
    assert_equal(*(list(each.values()) for each in saved))


def adam(rate=1e-2):
    return keras.optimizers.Adam(rate)


OTHERS = {
    "another rate": lambda: {"optimizer": adam(2e-2)},
    "another optimizer": lambda: {"optimizer": keras.optimizers.AdamW(1e-2)},
    "a loss": lambda: {"optimizer": adam(), "loss": lambda y, x: focal(y, x)},
    "a metric": lambda: {
        "optimizer": adam(),
        "metrics": [keras.metrics.SparseCategoricalAccuracy()],
    },
    "no optimizer": dict,
}


@pytest.mark.parametrize("name", others_swept(OTHERS))
def test_other_objects_begin_another_run(name, tmp_path, monkeypatch, caplog):
    options = {"output": tmp_path / "out", "validation": tiny.opinions(20)}
    interrupted(monkeypatch, 1, optimizer=adam(), **options)
    _, result = run(**OTHERS[name](), **options)
    assert "starts from the beginning" in caplog.text
    assert [entry["epoch"] for entry in result.history] == [1, 2, 3]


class StopsAfterTwo(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = epoch == 1


@pytest.mark.slow
def test_a_run_that_a_callback_stopped_stays_so(tmp_path, monkeypatch):
    options = {"output": tmp_path / "out", "callbacks": [StopsAfterTwo()]}
    interrupted(monkeypatch, 2, **options)
    _, result = run(**options)
    assert [entry["epoch"] for entry in result.history] == [1, 2]


def focal(y_true, y_pred):
    """Lin et al. 2017, https://arxiv.org/abs/1708.02002, with gamma 2."""
    log_p = tf.nn.log_softmax(y_pred)
    log_p = tf.gather(log_p, tf.cast(y_true, tf.int32), axis=1, batch_dims=1)
    return -((1 - tf.exp(log_p)) ** 2) * log_p


def test_a_loss(tmp_path):
    data = tiny.opinions(32)
    recipe = changed(learning_rate=1e-2, epochs=8)
    model, result = run(validation=data, recipe=recipe, loss=focal, output=tmp_path / "out")
    logits = np.asarray(model(model.preprocessor(list(data.texts))), "float64")
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    p = p[np.arange(32), [model.labels.index(label) for label in data.labels]]
    assert result.validation["loss"] == pytest.approx(
        np.mean(-((1 - p) ** 2) * np.log(p)), rel=1e-3
    )
    assert result.validation["accuracy"] == 1
    assert result.history[-1]["loss"] < 0.5 * result.history[0]["loss"]
    assert model.default_loss().name == "sparse_categorical_crossentropy"  # as before
    assert evaluate(model, data)["loss"] != result.validation["loss"]
    summary = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert summary["recipe"]["loss"] == f"{__name__}.focal"


@pytest.mark.slow
def test_the_own_loss_changes_nothing():
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    one, two = run(), run(loss=loss)
    assert_equal(one[0].get_weights(), two[0].get_weights())
    assert one[1] == two[1]


def test_metrics(tmp_path):
    labels = ["bad", "good", "so"]
    model = tiny.classifier(tiny.NO_DROPOUT, labels=labels)
    data = tiny.opinions(20)
    metrics = [
        keras.metrics.SparseCategoricalAccuracy(name="right"),
        keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2"),
    ]
    recipe = changed(metric="top2", learning_rate=1e-3, baseline=True)
    _, result = run(
        model,
        validation=data,
        test=tiny.opinions(7),
        recipe=recipe,
        metrics=metrics,
        output=tmp_path / "out",
    )
    for entry in result.history:
        assert entry["validation_right"] == pytest.approx(entry["validation_accuracy"])
        assert 0 <= entry["right"] <= entry["top2"] <= 1
    best = max(result.history, key=lambda entry: entry["validation_top2"])
    assert result.best_epoch == best["epoch"]
    ranks = np.argsort(-np.asarray(model(model.preprocessor(list(data.texts)))), axis=1)[:, :2]
    right = [labels.index(label) in row for label, row in zip(data.labels, ranks, strict=True)]
    assert result.validation["top2"] == pytest.approx(np.mean(right))
    assert result.test["right"] == pytest.approx(result.test["accuracy"])
    for baseline in result.baseline.values():
        assert baseline["right"] == pytest.approx(baseline["accuracy"])
    summary = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert summary["test"] == result.test


@pytest.mark.slow
def test_what_fills_a_batch_is_not_measured():
    """30 examples in batches of 10, each in 4 parts: 2 of 12 elements are copies."""
    found = []
    for parts in (1, 4):
        recipe = changed(
            batch_size=10, gradient_accumulation_steps=parts, learning_rate=1e-9, epochs=1
        )
        metrics = [keras.metrics.SparseCategoricalAccuracy(name="right")]
        found.append(run(recipe=recipe, metrics=metrics)[1].history[0]["right"])
    model = tiny.classifier(tiny.NO_DROPOUT)
    assert found == pytest.approx([evaluate(model, tiny.opinions(30))["accuracy"]] * 2)


@pytest.mark.slow
def test_metrics_of_choices():
    lines = ["the\tgood film\tbad film\tbook", "a\tbook\tfilm\tpoor"] * 4
    data = ChoiceExamples.from_lines(lines)
    data = ChoiceExamples(**{**vars(data), "labels": (0, 2) * 4})
    model = kb.MultipleChoice(tiny.encoder(), preprocessor=tiny.preprocessor())
    metrics = [keras.metrics.SparseCategoricalAccuracy(name="right")]
    _, result = run(model, data, data, metrics=metrics)
    for entry in result.history:
        assert entry["validation_right"] == pytest.approx(entry["validation_accuracy"])


class Logs(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(logs)


def test_callbacks_get_the_names_of_keras():
    callback, data = Logs(), tiny.opinions(20)
    _, result = run(validation=data, callbacks=[callback])
    for logs, entry in zip(callback.seen, result.history, strict=True):
        assert set(logs) == {"loss", "val_loss", "val_accuracy", "val_f1", "val_macro_f1"} | {
            "val_matthews"
        }
        assert logs["val_accuracy"] == entry["validation_accuracy"]
    stopping = keras.callbacks.EarlyStopping("val_loss", mode="max", patience=1)
    recipe = changed(epochs=20, learning_rate=1e-2)
    _, result = run(validation=data, recipe=recipe, callbacks=[stopping])
    assert 2 <= len(result.history) < 20


def test_the_rate_is_set_by_a_callback():
    callback = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.0 if epoch else rate)
    steps = Weights()
    run(optimizer=keras.optimizers.SGD(0.1), callbacks=[callback, steps])
    assert_equal(steps.steps[3], steps.steps[-1])
    assert not np.array_equal(steps.steps[0][0], steps.steps[3][0])


@pytest.mark.slow
def test_tensorboard(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    callback = keras.callbacks.TensorBoard(tmp_path, histogram_freq=1)
    _, result = run(validation=tiny.opinions(20), callbacks=[callback])

    def scalars(folder, name):
        reader = events.EventAccumulator(str(tmp_path / folder))
        reader.Reload()
        return [float(tf.make_ndarray(event.tensor_proto)) for event in reader.Tensors(name)]

    losses = [entry["loss"] for entry in result.history]
    assert scalars("train", "epoch_loss") == pytest.approx(losses, rel=1e-5)
    accuracies = [entry["validation_accuracy"] for entry in result.history]
    assert scalars("validation", "epoch_accuracy") == pytest.approx(accuracies, rel=1e-5)


def used():
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build([keras.Variable([1.0])])
    return optimizer


def crossentropy(**options):
    return keras.losses.SparseCategoricalCrossentropy(**{"from_logits": True, **options})


def tagged():
    return TaggedExamples(
        path="memory",
        lines=tuple(range(8)),
        texts=("good film",) * 8,
        words=(((0, 4),),) * 8,
        tags=(("O",), ("A",)) * 4,
    )


class Lower(keras.metrics.MeanSquaredError):
    pass


PLATEAU = keras.callbacks.ReduceLROnPlateau
TAGGER = {
    "model": lambda: kb.TokenClassifier(
        tiny.encoder(), labels=["O", "A"], preprocessor=tiny.preprocessor()
    )
}
ANSWERS = {"model": lambda: kb.SpanClassifier(tiny.encoder(), preprocessor=tiny.preprocessor())}
REFUSED = {
    "a name": ({"optimizer": "adam"}, "optimizer is 'adam', but must be a Keras optimizer"),
    "a used one": ({"optimizer": used}, "The Adam was used before; give a new optimizer"),
    "another function": (
        {"optimizer": lambda: lambda rate: rate},
        "The function that is given as optimizer returned .*must return a Keras optimizer",
    ),
    "two rates": (
        {"optimizer": lambda: KerasAdamW(1e-3), "recipe": {"learning_rate": 1e-3}},
        "The recipe's learning_rate is 0.001, but has no effect, because an optimizer is given",
    ),
    "two decays": (
        {"optimizer": lambda: keras.optimizers.Lion, "recipe": {"layer_decay": 0.9}},
        "The recipe's layer_decay is 0.9, but has no effect",
    ),
    "parts of a batch": (
        {
            "optimizer": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
            "recipe": {"gradient_accumulation_steps": 2},
        },
        "The SGD has gradient_accumulation_steps=2 and the recipe gradient_accumulation_steps=2; "
        "give the same number to both, and more than 1 only to KerasAdamW",
    ),
    "parts of no batch": (
        {"optimizer": lambda: KerasAdamW(0.1, gradient_accumulation_steps=2)},
        "The KerasAdamW has gradient_accumulation_steps=2 and the recipe gradient_acc.*=1; give",
    ),
    "a loss by name": ({"loss": "mse"}, "loss is 'mse', but must be a loss object"),
    "a loss of probabilities": (
        {"loss": lambda: crossentropy(from_logits=False)},
        "expects probabilities, but the model returns logits; give it from_logits=True",
    ),
    "a loss of sums": ({"loss": lambda: crossentropy(reduction="sum")}, "has the reduction 'sum'"),
    "two smoothings": (
        {"loss": crossentropy, "recipe": {"label_smoothing": 0.1}},
        "The recipe's label_smoothing is 0.1, but a loss is given",
    ),
    "a loss of all tokens": (
        {"loss": crossentropy, "train": tagged, **TAGGER},
        r"The loss cannot be computed for targets \[8, 4\] and outputs \[8, 4, 2\]",
    ),
    "a loss of two outputs": ({"loss": crossentropy, **ANSWERS}, "SpanClassifier needs its own"),
    "a loss of other targets": (
        {"loss": lambda: keras.losses.CategoricalCrossentropy(from_logits=True)},
        r"The loss cannot be computed for targets \[8\] and outputs \[8, 2\]",
    ),
    "a loss that is not finite": (
        {"loss": lambda: lambda y, x: x[:, 0] * math.nan},
        "The loss is nan for targets",
    ),
    "a metric of one-hot targets": (
        {"metrics": lambda: [keras.metrics.F1Score()]},
        r"The metric f1_score cannot be computed for targets \[8\] and outputs \[8, 2\]",
    ),
    "a metric of probabilities": (
        {"metrics": lambda: [keras.metrics.SparseCategoricalCrossentropy()]},
        "The metric 'sparse_categorical_crossentropy' expects probabilities",
    ),
    "a curve of probabilities": (
        {"metrics": lambda: [keras.metrics.AUC(name="auc")]},
        "The metric 'auc' expects probabilities",
    ),
    "a metric by name": (
        {"metrics": lambda: ["accuracy"]},
        "metrics has 'accuracy'.* measured anyway",
    ),
    "an unknown metric": (
        {"metrics": lambda: ["recall@3"]},
        "metrics has 'recall@3'.*; give an obj",
    ),
    "a metric of ours": (
        {"metrics": lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]},
        "Two metrics are called 'accuracy'",
    ),
    "two metrics": (
        {"metrics": lambda: [keras.metrics.Mean(name="a"), keras.metrics.Mean(name="a")]},
        "Two metrics are called 'a'",
    ),
    "a metric of tags": (
        {"metrics": lambda: [keras.metrics.SparseCategoricalAccuracy()], **TAGGER},
        "metrics are for SequenceClassifier, MultipleChoice, but a TokenClassifier has other",
    ),
    "the smallest is best": (
        {"metrics": lambda: [Lower(name="low")], "recipe": {"metric": "low"}},
        "The recipe's metric is 'low', but the best epoch is the one with the largest value",
    ),
    "no list": ({"callbacks": PLATEAU}, "callbacks is <.*ReduceLROnPlateau .*, but must be a list"),
    "no callback": ({"callbacks": lambda: [print]}, "is not a Keras callback"),
    "another resume": (
        {"callbacks": lambda: [keras.callbacks.BackupAndRestore("backup")]},
        "fine_tune continues interrupted runs .*; leave the callback BackupAndRestore out",
    ),
    "another average": (
        {"callbacks": lambda: [keras.callbacks.SwapEMAWeights()]},
        "fine_tune measures and saves .*; leave the callback SwapEMAWeights out",
    ),
    "two schedules": ({"callbacks": lambda: [PLATEAU()]}, "ReduceLROnPlateau sets the learning"),
    "two schedules, own": (
        {
            "callbacks": lambda: [PLATEAU()],
            "optimizer": lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
            ),
        },
        "ReduceLROnPlateau sets the learning rate, but a schedule sets it, too",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_together(name, tmp_path):
    change, message = REFUSED[name]
    options = {k: v() if callable(v) else v for k, v in change.items()}
    options["recipe"] = changed(**options.pop("recipe", {}))
    with pytest.raises(InputError, match=message):
        run(**options, output=tmp_path / "out")
    assert not list(tmp_path.rglob("*.json"))


ON_TWO_DEVICES = {
    "made outside": (
        {"optimizer": lambda: keras.optimizers.SGD(0.1)},
        "The SGD was made outside of the scope of the model's strategy",
    ),
    "averages": (
        {"optimizer": lambda: of_the_scope(KerasAdamW(0.1, use_ema=True))},
        "The KerasAdamW has use_ema, which Keras does not support on 2 devices",
    ),
    "clipped too early": (
        {"optimizer": lambda: of_the_scope(keras.optimizers.SGD(0.1, global_clipnorm=1.0))},
        "The SGD has global_clipnorm, which Keras does not support on 2 devices",
    ),
    "metrics": (
        {"metrics": lambda: [keras.metrics.SparseCategoricalAccuracy()]},
        "metrics are computed on one device only",
    ),
}
STRATEGY = SimpleNamespace(num_replicas_in_sync=2)


def of_the_scope(optimizer):
    optimizer._distribution_strategy = STRATEGY
    return optimizer


@pytest.mark.parametrize("name", ON_TWO_DEVICES)
def test_what_two_devices_cannot_do(name):
    change, message = ON_TWO_DEVICES[name]
    model = tiny.classifier()
    model._distribute_strategy = STRATEGY
    objects = KerasObjects(**{k: make() for k, make in change.items()})
    with pytest.raises(InputError, match=message):
        objects.check(model, Recipe(), ["accuracy"])


def test_another_strategy_is_refused():
    model = tiny.classifier()
    model._distribute_strategy = STRATEGY
    with pytest.raises(InputError, match="a SimpleNamespace, but fine-tuning needs one device or"):
        run(model)


def test_averages_of_parts_are_refused():
    with pytest.raises(InputError, match="use_ema is True and gradient_accumulation_steps is 2"):
        KerasAdamW(1e-3, use_ema=True, gradient_accumulation_steps=2)


@pytest.mark.slow
def test_parts_of_a_batch_equal_the_batch():
    results = []
    for parts in (None, 3):
        optimizer = KerasAdamW(1e-2, gradient_accumulation_steps=parts)
        recipe = changed(batch_size=12, gradient_accumulation_steps=parts or 1)
        model, _ = run(optimizer=optimizer, recipe=recipe)
        # A key's bias has the gradient 0: it adds the same number to all logits of a row. Adam
        # makes steps of the rounding errors.
        weights = [w for w in model.weights if not w.path.endswith("key/bias")]
        results.append([weight.numpy() for weight in weights])
    assert_equal(*results, atol=2e-5)
