"""keras-bert finetune."""

from typing import Any

import click

from keras_bert.cli.options import BATCH_SIZE, MODEL, data_options, reader


@click.command("finetune")
@click.option(
    "--task",
    type=click.Choice(["classify"]),
    default="classify",
    show_default=True,
    help="classify: one label, several labels, or a number for each text or pair.",
)
@MODEL
@click.option("--train", required=True, metavar="FILE", help="CSV, TSV or JSONL to learn from.")
@click.option("--validation", metavar="FILE", help="To choose the best epoch by.")
@click.option(
    "--validation-share",
    default=0.1,
    show_default=True,
    help="Share of --train to hold out where there is no --validation.",
)
@click.option("--test", metavar="FILE", help="To measure the best epoch on.")
@click.option("--output", required=True, metavar="DIR", help="For model, metrics and history.")
@data_options
@click.option(
    "--problem",
    type=click.Choice(["single_label", "multi_label", "regression"]),
    help="By default as the labels look.",
)
@click.option("--epochs", default=3, show_default=True, help="Passes through the examples.")
@BATCH_SIZE
@click.option("--learning-rate", default=5e-5, show_default=True, help="The highest.")
@click.option("--warmup", default=0.1, show_default=True, help="Share of the steps.")
@click.option("--weight-decay", default=0.01, show_default=True, help="Decoupled.")
@click.option("--metric", metavar="NAME", help="What chooses the best epoch.")
@click.option("--sequence-length", type=int, help="Longest text in tokens; default: the model's.")
@click.option(
    "--pooling",
    type=click.Choice(["pooled", "first", "mean", "attention"]),
    help="How tokens become one vector; default: the encoder's pooler, if it has one.",
)
@click.option("--seed", default=0, show_default=True, help="Of everything random.")
def command(
    task: str,
    model: str,
    train: str,
    validation: str | None,
    validation_share: float,
    test: str | None,
    output: str,
    problem: str | None,
    sequence_length: int | None,
    pooling: str | None,
    **options: Any,
) -> None:
    """Fine-tune an encoder on labelled texts.

    Files have a column for the text (text, sentence, ...) or two (sentence1 and sentence2,
    question and answer, ...), and one for the label (label, score, ...); other names are given
    by options.
    """
    import keras

    import keras_bert
    from keras_bert.finetuning import Recipe, fine_tune, hold_out, label_names, problem_type_of

    names = ("epochs", "batch_size", "learning_rate", "warmup", "weight_decay", "metric", "seed")
    recipe = Recipe(**{name: options.pop(name) for name in names})
    read = reader(**options)
    examples = read(train)
    problem = problem or problem_type_of(examples)
    labels = label_names(examples, problem)
    if validation:
        held_out = read(validation)
    else:
        examples, held_out = hold_out(examples, validation_share, recipe.seed)
    tested = read(test) if test else None

    keras.utils.set_random_seed(recipe.seed)
    encoder = keras_bert.load(model, task="encoder")
    preprocessor = encoder.preprocessor
    if preprocessor is not None and sequence_length:
        preprocessor = preprocessor.with_length(sequence_length)
    classifier = keras_bert.SequenceClassifier(
        encoder, labels=labels, problem_type=problem, pooling=pooling, preprocessor=preprocessor
    )
    result = fine_tune(classifier, examples, held_out, tested, recipe=recipe, output=output)
    click.echo(f"best epoch: {result.best_epoch}")
    for split in ("validation", "test"):
        metrics = getattr(result, split)
        if metrics:
            click.echo(f"{split}: " + ", ".join(f"{k} {v:.4f}" for k, v in metrics.items()))
    click.echo(f"{output}/model: the model")
