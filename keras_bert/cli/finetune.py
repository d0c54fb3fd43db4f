"""Command `keras-bert finetune`: trains a model on labeled examples."""

import functools
from pathlib import Path
from typing import Any

import click

from keras_bert.cli.files import OVERWRITE, check_output, info_on_stdout, is_picture
from keras_bert.cli.options import (
    COLUMNS,
    COMMANDS,
    FORMAT,
    MODEL,
    add,
    check_allowed,
    field_options,
    given,
    reader,
)
from keras_bert.errors import InputError
from keras_bert.extras import require_tensorflow_backend
from keras_bert.tasks.registry import FINE_TUNED, TASKS

_FILES = (
    click.option("--train", required=True, metavar="FILE", help="Examples to learn from."),
    click.option("--validation", metavar="FILE", help="Examples to choose the best epoch with."),
    click.option(
        "--validation-ratio",
        default=0.1,
        show_default=True,
        help="Ratio of --train to hold out if there is no --validation.",
    ),
    click.option("--test", metavar="FILE", help="Examples to measure the best epoch on."),
)
_HEAD = (
    click.option(
        "--problem",
        "problem_type",
        type=click.Choice(["single_label", "multi_label", "regression"]),
        help="classify: type of problem; by default, the labels decide.",
    ),
    click.option(
        "--pooling",
        type=click.Choice(["pooled", "first", "mean", "attention"]),
        help="classify, similarity: how the vectors of all tokens become one. By default, the "
        "pooling of an embedder, such as a directory of sentence-transformers. For other models, "
        "it is the encoder's pooler, if there is one, for classify, and mean for similarity.",
    ),
    click.option(
        "--windows",
        type=click.Choice(["mean", "max"]),
        help="classify, similarity: divide long texts into windows of --sequence-length tokens, "
        "and take the mean or the maximum of their vectors. By default, long texts are cut.",
    ),
    click.option(
        "--max-windows",
        type=click.IntRange(1),
        metavar="NUMBER",
        help="classify, similarity: largest number of windows of a text; by default 32.",
    ),
    click.option("--crf", is_flag=True, help="tag: choose all tags of a text together, by a CRF."),
    click.option(
        "--continue-labels",
        is_flag=True,
        help="tag: label all tokens of a word, not only the first.",
    ),
    click.option(
        "--scheme",
        type=click.Choice(["iob1", "iob2", "bioes"]),
        help="tag: scheme of the model's tags; by default bioes if the file uses it, else iob2.",
    ),
    click.option(
        "--null-threshold",
        type=float,
        metavar="NUMBER",
        help='answer: a question has no answer if the score of "no answer" exceeds the best '
        "answer's score by this number; by default 0 if some questions have no answer.",
    ),
    click.option(
        "--loss",
        "objective",
        type=click.Choice(["contrastive", "cosine", "softmax"]),
        help="similarity: training objective. By default, it is contrastive without labels, cosine "
        "for labels that are numbers and not all whole, else softmax.",
    ),
    click.option(
        "--score-range",
        type=(float, float),
        metavar="LOW HIGH",
        help="similarity: lowest and highest possible score; by default, from the scores in the "
        "file.",
    ),
    click.option(
        "--cross-encoder",
        is_flag=True,
        help="similarity: train a classifier that reads both texts at once and makes no vectors.",
    ),
)


@functools.cache
def _recipe_options() -> list[click.Option]:
    from keras_bert.finetuning.recipe import Recipe

    return field_options(Recipe)


class FinetuneCommand(click.Command):
    """Command with an option for each field of `Recipe`. The class is imported when needed."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Returns all options, `--help` last."""
        *options, show_help = super().get_params(ctx)
        return [*options, *_recipe_options(), show_help]


@click.command("finetune", cls=FinetuneCommand)
@click.option(
    "--task",
    "command_name",
    type=click.Choice(list(COMMANDS)),
    default="classify",
    show_default=True,
    help=" ".join(f"{name}: {TASKS[task].summary}." for name, task in COMMANDS.items()),
)
@MODEL
@add(*_FILES)
@click.option(
    "--output", required=True, metavar="DIR", help="Directory for model, metrics and history."
)
@click.option("--curves", metavar="FILE.png", help="Draw the loss and the metrics by epoch.")
@add(*_HEAD, *COLUMNS, FORMAT)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "mixed_bfloat16", "mixed_float16", "auto"]),
    default="float32",
    show_default=True,
    help="Precision of computations; weights stay float32. auto means mixed_bfloat16 on devices "
    "that compute fast in it, else float32.",
)
@click.option(
    "--strategy",
    type=click.Choice(["default", "mirrored"]),
    default="default",
    show_default=True,
    help="Train on one device, or on all GPUs of this machine.",
)
@OVERWRITE
def command(
    command_name: str,
    model: str,
    train: str,
    validation: str | None,
    validation_ratio: float,
    test: str | None,
    output: str,
    curves: str | None,
    cross_encoder: bool,
    dtype: str,
    strategy: str,
    overwrite: bool,
    **options: Any,
) -> None:
    """Fine-tune an encoder on examples.

    A table needs a column for the text, such as text or sentence, or two columns for pairs, such
    as sentence1 and sentence2. It also needs a column for the label, such as label or score. If
    your columns have other names, give them with options. An interrupted run continues if you
    start the same command again.
    """
    require_tensorflow_backend("Fine-tuning")
    if Path(model).resolve() == (Path(output) / "model").resolve():
        raise InputError(
            f"{output} would replace the model to start from, {model}; choose another output."
        )
    if cross_encoder and command_name != "similarity":
        raise click.UsageError(f"--cross-encoder is not for the task {command_name}.")
    command_name = "classify" if cross_encoder else command_name
    task = COMMANDS[command_name]

    import keras

    from keras_bert.checkpoints import is_on_hub
    from keras_bert.checkpoints.card import ModelCardData
    from keras_bert.checkpoints.hub import repository
    from keras_bert.distribution.strategy import make_strategy
    from keras_bert.finetuning import GLUE, Recipe, fine_tune, hold_out, new_model
    from keras_bert.finetuning.jobs import job_of_task
    from keras_bert.finetuning.tasks import keyword_options, usable

    values = {option.name: options.pop(option.name) for option in _recipe_options()}
    allowed = {name: keyword_options(job_of_task(name).arguments) for name in FINE_TUNED}
    names = dict.fromkeys(name for task_names in allowed.values() for name in task_names)
    head = given({name: options.pop(name) for name in names})
    check_allowed(command_name, head, allowed[task])
    if options["glue"] and task == "classifier":
        head.setdefault("problem_type", GLUE[options["glue"]].problem_type)
        values["metric"] = values["metric"] or GLUE[options["glue"]].metrics[0]
    recipe, read = Recipe(**values), reader(task, options)
    if curves:
        from keras_bert.visualize.plotting import check_picture

        check_picture(curves)
        check_output(curves, (train, validation, test, model), is_picture, overwrite)

    examples = read(train)
    held_out, tested = (read(path) if path else None for path in (validation, test))
    all_examples = [part for part in (examples, held_out, tested) if part is not None]
    if held_out is None:
        examples, held_out = hold_out(examples, validation_ratio, recipe.seed)
    with make_strategy(strategy).scope(), info_on_stdout("keras_bert.finetuning"):
        keras.utils.set_random_seed(recipe.seed)
        tuned = new_model(task, model, *all_examples, dtype=dtype, **head)
    parts = [
        part and usable(part, tuned, options["on_error"]) for part in (examples, held_out, tested)
    ]
    card = ModelCardData({"base_model": repository(model)}) if is_on_hub(model) else None
    with info_on_stdout("keras_bert.finetuning"):
        result = fine_tune(tuned, *parts, recipe=recipe, output=output, card=card)
    if curves:
        from keras_bert.visualize.finetuning import plot_curves

        plot_curves(result.history, curves)
    click.echo(f"best epoch: {result.best_epoch or '0, the frozen baseline'}")
    for split in ("validation", "test"):
        metrics = getattr(result, split)
        if metrics:
            click.echo(f"{split}: " + ", ".join(f"{k} {v:.4f}" for k, v in metrics.items()))
    click.echo(f"{output}/model: the model")
