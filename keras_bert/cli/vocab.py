"""keras-bert vocab."""

import click


@click.command("vocab")
@click.argument("corpus", nargs=-1, required=True)
@click.option("--size", default=8192, show_default=True, type=click.IntRange(6), help="Of tokens.")
@click.option("--output", required=True, metavar="FILE", help="The vocab.txt to write.")
@click.option("--cased", is_flag=True, help="Keep upper case and accents.")
def command(corpus: tuple[str, ...], size: int, output: str, cased: bool) -> None:
    """Learn a vocabulary from text files.

    CORPUS are names or globs of text files, plain or gzip.
    """
    import keras_bert

    vocabulary = keras_bert.learn_vocabulary(corpus, size, lowercase=not cased)
    vocabulary.save(output)
    click.echo(f"{output}: {len(vocabulary)} tokens")
