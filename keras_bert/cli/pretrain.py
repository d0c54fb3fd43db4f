"""keras-bert pretrain."""

import click

from keras_bert.extras import require_tensorflow_backend


class RunCommand(click.Command):
    """Says how its options are written where someone puts dashes before them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As for any command."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if {*(error.possibilities or ())} - {"--help"}:
                raise
            name = error.option_name.lstrip("-").replace("-", "_")
            raise click.UsageError(
                f"No such option {error.option_name!r}. Those of a run have no dashes: "
                f"{name}=VALUE.",
                ctx,
            ) from error


@click.command("pretrain", cls=RunCommand)
@click.argument("config", metavar="CONFIG.yaml|RECIPE")
@click.argument("overrides", metavar="[KEY=VALUE]...", nargs=-1)
def command(config: str, overrides: tuple[str, ...]) -> None:
    """Pretrain an encoder on text, or continue to.

    The run goes on where it stopped if it is started again with the same output directory.

    A RECIPE is a file of options that comes with this package, with what the papers have:
    bert_base_phase1, bert_base_phase2, bert_large_phase1, bert_large_phase2,
    bert_large_lamb_phase1, bert_large_lamb_phase2, roberta_base, albert_base, electra_small,
    electra_base, distilbert (needs a teacher), deberta_v3_base, and fast, a small model in hours,
    which goes on from that of fast_short.

    keras-bert pretrain fast_short corpus="text/*.txt" vocabulary=vocab.txt output=short

    keras-bert pretrain fast corpus="text/*.txt" preset=null initial=short/model output=run

    KEYs are the options of such a file, those after it count: corpus, vocabulary, output, family,
    preset, initial, encoder, vocabulary_size_multiple, lowercase, objective, generator_size,
    generator_depth, teacher, validation, validation_share, validation_examples, sequence_length,
    across_documents, packed, batch_size, first_batch_size, batch_ramp_steps, accumulation, steps,
    epochs, masking_rate, masking, learning_rate, warmup_steps, warmup_share, decay,
    final_learning_rate, optimizer, beta_1, beta_2, epsilon, weight_decay, clip_norm, seed,
    strategy, cluster, data_service, precision, checkpoint_every, keep_checkpoints, evaluate_every,
    steps_per_loop, jit, peak_teraflops.
    """
    run(config, overrides)


def run(config: str, overrides: tuple[str, ...]) -> None:
    """Carries out the run that a file describes, and says what came of it.

    Raises:
        InputError: if something about it is wrong.
        KeyboardInterrupt: if it was interrupted.
    """
    require_tensorflow_backend("Pretraining")

    from keras_bert.pretraining.config import PretrainingConfig
    from keras_bert.pretraining.training.trainer import pretrain

    results = pretrain(PretrainingConfig.from_yaml(config, overrides))
    if not results["finished"]:
        raise KeyboardInterrupt(
            f"Interrupted at step {results['step']} of {results['steps']}, which is saved; "
            "give the same command to go on."
        )
    if not results["chief"]:
        return  # one of the workers says it
    for when in ("before", "after"):
        if results[when]:
            measured = {k: v for k, v in results[when].items() if "_" in k}  # of each head
            numbers = ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
            click.echo(f"{when} on held-out text: {numbers}")
    click.echo(f"{results['model']}: the model")
