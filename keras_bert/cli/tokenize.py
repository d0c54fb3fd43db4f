"""Command `keras-bert tokenize`: converts text to token ids."""

from typing import Any

import click

from keras_bert.cli.files import TEXT_FIELD


@click.command("tokenize")
@click.argument("corpus", nargs=-1, required=True)
@click.option(
    "--vocabulary",
    required=True,
    metavar="PATH",
    help="Vocabulary of any tokenizer: vocab.txt, vocab.json, *.model, or a directory that has "
    "such a file or a model.",
)
@click.option("--output", required=True, metavar="DIRECTORY", help="Directory for the records.")
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Number of processes; by default one per CPU core. A Ray cluster that runs has its own.",
)
@click.option(
    "--runner",
    default="local",
    show_default=True,
    type=click.Choice(["local", "ray"]),
    help="Where the processes are: on this machine, or on the Ray cluster of RAY_ADDRESS.",
)
@click.option(
    "--shard-size",
    default=64,
    show_default=True,
    type=click.IntRange(1),
    help="Megabytes of text for each file of records.",
)
@click.option("--cased", is_flag=True, help="Keep upper case and accents (WordPiece).")
@TEXT_FIELD
@click.option(
    "--unreadable-files",
    default="stop",
    show_default=True,
    type=click.Choice(["stop", "skip"]),
    help="If a file is missing, damaged, changed or not UTF-8: stop, or skip the rest of the file.",
)
def command(
    corpus: tuple[str, ...],
    vocabulary: str,
    output: str,
    workers: int | None,
    runner: str,
    shard_size: int,
    cased: bool,
    text_field: str,
    unreadable_files: str,
) -> None:
    """Convert text to token ids once, for all later runs.

    CORPUS are names, globs or addresses of text files. Then give the output directory as
    data.corpus to pretraining runs with the same vocabulary. If the command was interrupted, start
    it again. It continues where it stopped.
    """
    from keras_bert.pretraining.data.tokenization import MEGABYTE, tokenize
    from keras_bert.text.tokenizer import load_tokenizer

    options: dict[str, Any] = {"lowercase": False} if cased else {}
    tokenizer = load_tokenizer(vocabulary, **options)
    try:
        manifest = tokenize(
            corpus,
            tokenizer,
            output,
            workers=workers,
            runner=runner,
            shard_size=shard_size * MEGABYTE,
            text_field=text_field,
            unreadable_files=unreadable_files,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted; finished files are in {output}. Give the same command to continue."
        ) from None
    unreadable = len(manifest.get("unreadable_files", ()))  # earlier versions had no such count
    click.echo(
        f"{output}: {manifest['documents']} documents, {manifest['lines']} lines, "
        f"{manifest['tokens']} tokens in {len(manifest['shards'])} files"
        + f"; {unreadable} unreadable text files"
        * bool(unreadable)
    )
