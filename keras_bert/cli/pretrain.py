"""keras-bert pretrain."""

import click


@click.command("pretrain")
@click.argument("config", metavar="CONFIG.yaml")
@click.argument("overrides", metavar="[KEY=VALUE]...", nargs=-1)
def command(config: str, overrides: tuple[str, ...]) -> None:
    """Pretrain an encoder on text, or continue to.

    The run goes on where it stopped if it is started again with the same output directory.
    """
    from keras_bert.pretraining.config import PretrainingConfig
    from keras_bert.pretraining.trainer import pretrain

    run = PretrainingConfig.from_yaml(config, overrides)
    results = pretrain(run)
    if not results["finished"]:
        raise KeyboardInterrupt(
            f"Interrupted at step {results['step']} of {results['steps']}, which is saved; "
            "give the same command to go on."
        )
    for when in ("before", "after"):
        if results[when]:
            measured = {k: v for k, v in results[when].items() if k.startswith(("mlm_", "nsp_"))}
            numbers = ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
            click.echo(f"{when} on held-out text: {numbers}")
    click.echo(f"{results['model']}: the model")
