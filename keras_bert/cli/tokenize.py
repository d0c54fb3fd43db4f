"""Command `keras-bert tokenize`: token ids from text."""

from typing import Any

import click


@click.command("tokenize")
@click.argument("corpus", nargs=-1, required=True)
@click.option(
    "--vocabulary",
    required=True,
    metavar="PATH",
    help="Vocabulary of any tokenizer: vocab.txt, vocab.json, *.model, or a directory of one or of "
    "a model.",
)
@click.option("--output", required=True, metavar="DIRECTORY", help="Directory of the records.")
@click.option(
    "--workers", type=click.IntRange(1), help="Number of processes; by default one per CPU core."
)
@click.option(
    "--shard-size",
    default=64,
    show_default=True,
    type=click.IntRange(1),
    help="Megabytes of text in a file of records.",
)
@click.option("--cased", is_flag=True, help="Keep upper case and accents (WordPiece).")
def command(
    corpus: tuple[str, ...],
    vocabulary: str,
    output: str,
    workers: int | None,
    shard_size: int,
    cased: bool,
) -> None:
    """Convert text to token ids once, for all later runs.

    CORPUS are names or globs of text files, plain or gzip. Runs with the same
    vocabulary name the output directory as data.corpus. If a pass was interrupted, the same
    command continues it where it stopped.
    """
    from keras_bert.pretraining.data.tokenization import MEGABYTE, tokenize
    from keras_bert.text.tokenizer import load_tokenizer

    options: dict[str, Any] = {"lowercase": False} if cased else {}
    tokenizer = load_tokenizer(vocabulary, **options)
    try:
        manifest = tokenize(
            corpus, tokenizer, output, workers=workers, shard_size=shard_size * MEGABYTE
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted; what is made is in {output}, give the same command to go on."
        ) from None
    click.echo(
        f"{output}: {manifest['documents']} documents, {manifest['lines']} lines, "
        f"{manifest['tokens']} tokens in {len(manifest['shards'])} files"
    )
