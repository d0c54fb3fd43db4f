"""Commands `keras-bert pretrain` and `keras-bert distill`."""

import json

import click

from keras_bert.cli.files import info_on_stdout
from keras_bert.extras import require_tensorflow_backend


class RunCommand(click.Command):
    """Command that takes the options of a run as KEY=VALUE."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the options of a run in their groups, each with its default."""
        from keras_bert.options import fields
        from keras_bert.pretraining.config import PretrainingConfig

        groups: dict[str, list[tuple[str, str]]] = {}
        for name, field in fields(PretrainingConfig).items():
            default = "required" if field.is_required() else f"default: {json.dumps(field.default)}"
            group = name.partition(".")[0] if "." in name else "run"
            groups.setdefault(group, []).append((name, f"{field.description} [{default}]"))
        for group, rows in groups.items():
            with formatter.section(f"Keys of {group}"):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses arguments, and explains KEY=VALUE if an option of a run has dashes."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if {*(error.possibilities or ())} - {"--help"}:
                raise
            from keras_bert.options import fields
            from keras_bert.pretraining.config import PretrainingConfig

            last = error.option_name.lstrip("-").replace("-", "_")
            names = fields(PretrainingConfig)
            name = next((each for each in names if each.rpartition(".")[2] == last), last)
            raise click.UsageError(
                f"No such option {error.option_name!r}. Options of a run have no dashes: "
                f"{name}=VALUE.",
                ctx,
            ) from error


@click.command("pretrain", cls=RunCommand)
@click.argument("config", metavar="CONFIG.yaml|RECIPE")
@click.argument("overrides", metavar="[KEY=VALUE]...", nargs=-1)
def command(config: str, overrides: tuple[str, ...]) -> None:
    """Pretrain an encoder on text, or continue a run.

    If a run was interrupted, start it again with the same output directory. It continues where it
    stopped.

    A RECIPE is a file of options that comes with this package and follows a paper:
    bert_base_phase1, bert_base_phase2, bert_large_phase1, bert_large_phase2,
    bert_large_lamb_phase1, bert_large_lamb_phase2, roberta_base, albert_base, electra_small,
    electra_base, distilbert (needs a teacher), deberta_v3_base, modernbert_base_phase1 and
    modernbert_base_phase2. The recipes fast_short and fast train a small model in hours; fast
    continues the model of fast_short:

    keras-bert pretrain fast_short data.corpus="text/*.txt" data.vocabulary=vocab.txt output=short

    keras-bert pretrain fast data.corpus="text/*.txt" model.preset=null
    model.init_checkpoint=short/model output=run

    A CONFIG.yaml is your own file of options. KEYs are the options below. Options on the command
    line override the file.
    """
    _run(config, overrides)


@click.command("distill", cls=RunCommand)
@click.option(
    "--teacher",
    required=True,
    metavar="DIR",
    help="Model to learn from: a directory or a name on the hub, in any supported format.",
)
@click.argument("config", metavar="CONFIG.yaml")
@click.argument("overrides", metavar="[KEY=VALUE]...", nargs=-1)
def distill(teacher: str, config: str, overrides: tuple[str, ...]) -> None:
    """Train a small model, the student, to predict like a larger one, the teacher.

    CONFIG.yaml has the options of a pretraining run. By default, the student is a DistilBERT with
    half of the teacher's layers and the teacher's vocabulary.
    """
    _run(config, (*overrides, f"objective.teacher={json.dumps(teacher)}"))


def _run(config: str, overrides: tuple[str, ...]) -> None:
    """Runs the pretraining that a file describes, and prints the results.

    Raises:
        InputError: if an option is wrong.
        KeyboardInterrupt: if the run was interrupted.
    """
    require_tensorflow_backend("Pretraining")

    from keras_bert.pretraining.recipes import read_config
    from keras_bert.pretraining.training.trainer import pretrain

    with info_on_stdout("keras_bert.pretraining"):
        results = pretrain(read_config(config, overrides))
    if not results["finished"]:
        raise KeyboardInterrupt(
            f"Interrupted at step {results['step']} of {results['steps']}, which is saved; "
            "give the same command to continue."
        )
    if not results["chief"]:
        return  # another worker prints the results
    for when in ("before", "after"):
        if results[when]:
            measured = {k: v for k, v in results[when].items() if "_" in k}  # of each head
            numbers = ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
            click.echo(f"{when} on held-out text: {numbers}")
    click.echo(f"{results['model']}: the model")
