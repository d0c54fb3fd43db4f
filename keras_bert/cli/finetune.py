"""keras-bert finetune."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from keras_bert.cli.data import check_options, is_default, reader, usable
from keras_bert.cli.models import KINDS, new_model
from keras_bert.cli.options import MODEL, data_options, head_options, recipe_options, split_options
from keras_bert.cli.outputs import OVERWRITE, check_output, is_picture
from keras_bert.errors import InputError
from keras_bert.extras import require_tensorflow_backend


@click.command("finetune")
@click.option(
    "--task",
    type=click.Choice(list(KINDS)),
    default="classify",
    show_default=True,
    help="classify: one label, several labels, or a number for each text or pair. tag: a tag for "
    "each word. answer: a part of a context. choice: one of several texts. similarity: vectors "
    "that are near where texts mean the like.",
)
@MODEL
@split_options
@click.option("--output", required=True, metavar="DIR", help="For model, metrics and history.")
@click.option("--curves", metavar="FILE.png", help="A picture of loss and metrics by epoch.")
@head_options
@data_options
@recipe_options
@click.option("--sequence-length", type=int, help="Longest text in tokens; default: the model's.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "mixed_bfloat16", "mixed_float16"]),
    default="float32",
    show_default=True,
    help="In which to compute; weights stay float32.",
)
@click.option(
    "--strategy",
    type=click.Choice(["default", "mirrored"]),
    default="default",
    show_default=True,
    help="One device, or all GPUs of this machine.",
)
@OVERWRITE
def command(
    task: str,
    model: str,
    train: str,
    validation: str | None,
    validation_share: float,
    test: str | None,
    output: str,
    curves: str | None,
    sequence_length: int | None,
    dtype: str,
    strategy: str,
    overwrite: bool,
    **options: Any,
) -> None:
    """Fine-tune an encoder on examples.

    Tables have a column for the text (text, sentence, ...) or two (sentence1 and sentence2,
    question and answer, ...), and one for the label (label, score, ...); other names are given by
    options. A run that was interrupted goes on if it is started again.
    """
    require_tensorflow_backend("Fine-tuning")
    if Path(model).resolve() == (Path(output) / "model").resolve():
        raise InputError(
            f"{model} is what to begin with, and {output} would replace it; choose another output."
        )
    task, head = _head(task, options)
    if options["glue"] and task == "classify":
        from keras_bert.finetuning import GLUE

        head.setdefault("problem", GLUE[options["glue"]].problem_type)
        options["metric"] = options["metric"] or GLUE[options["glue"]].metrics[0]
    recipe, options = _recipe(options)
    read = reader(task, **options)
    if curves:
        from keras_bert.visualize.plotting import check_picture

        check_picture(curves)
        check_output(curves, (train, validation, test, model), is_picture, overwrite)

    import keras

    from keras_bert.checkpoints import is_on_hub
    from keras_bert.checkpoints.card import ModelCardData
    from keras_bert.distribution.strategy import make_strategy
    from keras_bert.finetuning import fine_tune, hold_out

    examples = read(train)
    held_out, tested = (read(path) if path else None for path in (validation, test))
    others = [part for part in (held_out, tested) if part is not None]
    arguments = KINDS[task].arguments(examples, *others, **head)
    if held_out is None:
        examples, held_out = hold_out(examples, validation_share, recipe.seed)
    with make_strategy(strategy).scope():
        keras.utils.set_random_seed(recipe.seed)
        tuned = new_model(model, arguments, task, sequence_length, dtype)

    def fitting(part: Any) -> Any:
        return part and usable(part, tuned, options["on_error"])

    parts = fitting(examples), fitting(held_out), fitting(tested)
    card = ModelCardData({"base_model": model}) if is_on_hub(model) else None
    result = fine_tune(tuned, *parts, recipe=recipe, output=output, card=card)
    if curves:
        from keras_bert.visualize.finetuning import plot_curves

        plot_curves(result.history, curves)
    click.echo(f"best epoch: {result.best_epoch}")
    for split in ("validation", "test"):
        metrics = getattr(result, split)
        if metrics:
            click.echo(f"{split}: " + ", ".join(f"{k} {v:.4f}" for k, v in metrics.items()))
    if task == "classify" and tuned.problem_type == "single_label" and result.validation:
        _compare_with_chance(held_out.labels, result.validation["accuracy"])
    click.echo(f"{output}/model: the model")


def _compare_with_chance(labels: Sequence[str], accuracy: float) -> None:
    """Says so where one and the same answer would have done."""
    label, count = Counter(labels).most_common(1)[0]
    if accuracy <= count / len(labels):
        click.echo(
            f"Nothing learned yet: the answer {label!r} for every text has an accuracy of "
            f"{count / len(labels):.4f} there. Try more --epochs, or a higher --learning-rate: "
            "1e-3 suits an encoder that is small or hardly pretrained.",
            err=True,
        )


def _head(task: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Takes what describes the model out of the options."""
    if options.pop("cross_encoder"):  # is a classifier of pairs
        if task != "similarity":
            raise click.UsageError(f"--cross-encoder is not for the task {task}.")
        task = "classify"
    names = dict.fromkeys(name for kind in KINDS.values() for name in kind.options)
    head = {name: options.pop(name) for name in names}
    check_options(task, head, KINDS[task].options)
    return task, {name: value for name, value in head.items() if not is_default(value)}


def _recipe(options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A `Recipe`, and the options that are not for it."""
    import dataclasses

    from keras_bert.finetuning import Recipe

    names = {field.name for field in dataclasses.fields(Recipe)}
    values = {name: value for name, value in options.items() if name in names}
    values["class_weights"] = _class_weights(values["class_weights"])
    return Recipe(**values), {name: options[name] for name in options.keys() - names}


def _class_weights(given: tuple[str, ...]) -> str | dict[str, float] | None:
    if given in ((), ("balanced",)):
        return "balanced" if given else None
    weights = {}
    for text in given:
        label, _, weight = text.rpartition("=")
        try:
            weights[label] = float(weight)
        except ValueError:
            label = ""
        if not label:
            raise InputError(f"The class weight {text!r} is neither LABEL=NUMBER nor balanced.")
    return weights
