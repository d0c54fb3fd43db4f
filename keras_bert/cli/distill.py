"""keras-bert distill."""

import json

import click

from keras_bert.cli.pretrain import RunCommand, run


@click.command("distill", cls=RunCommand)
@click.option(
    "--teacher", required=True, metavar="DIR", help="The model to learn from; any that opens here."
)
@click.argument("config", metavar="CONFIG.yaml")
@click.argument("overrides", metavar="[KEY=VALUE]...", nargs=-1)
def command(teacher: str, config: str, overrides: tuple[str, ...]) -> None:
    """Teach a smaller model what a large one knows.

    CONFIG.yaml is that of a pretraining. Unless it names a preset, the student is a DistilBERT with
    half of the teacher's layers; unless it names a vocabulary, that of the teacher is taken.
    """
    run(config, (*overrides, f"objective.teacher={json.dumps(teacher)}"))
