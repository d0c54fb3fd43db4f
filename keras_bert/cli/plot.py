"""Command `keras-bert plot`: draws curves of pretraining runs."""

import click

from keras_bert.cli.files import OVERWRITE, check_output, is_picture


@click.command("plot")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--output",
    required=True,
    metavar="FILE.png",
    help="Picture to write; the ending of its name sets the format.",
)
@click.option(
    "--measure",
    "measures",
    metavar="NAME",
    multiple=True,
    help="Value to draw in a panel: mlm_loss, gradient_norm, learning_rate or another number in "
    "log.jsonl. Default: all losses and accuracies.",
)
@OVERWRITE
def command(runs: tuple[str, ...], output: str, measures: tuple[str, ...], overwrite: bool) -> None:
    """Draw the curves of pretraining runs, finished or not.

    RUN is the output directory of a run. Each panel shows all runs. An existing picture by
    matplotlib is replaced.
    """
    check_output(output, runs, is_picture, overwrite)
    from keras_bert.visualize.curves import plot_runs

    plot_runs(runs, output, measures=measures)
    click.echo(output)
