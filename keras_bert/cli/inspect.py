"""Command `keras-bert inspect`: describes a model."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click


@click.command("inspect")
@click.argument("model")
def command(model: str) -> None:
    """Describe a model: family, sizes, heads, text format, and a table of its parameters.

    MODEL is a directory of this package, Hugging Face, Google or KerasHub, or a model's name on
    the Hugging Face Hub. The weights are not read.
    """
    format, opened = _open(model)
    rows = [("format", format), *_description(opened)]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:{width}}  {value}")
    click.echo()
    click.echo(_table(_parameters(opened)))


def _open(path: str) -> tuple[str, Any]:
    from keras_bert import load
    from keras_bert.checkpoints import open_checkpoint

    if Path(path).suffix == ".keras":
        return "keras", load(path)
    format, contents = open_checkpoint(path)
    return format, contents.build()


def _description(model: Any) -> Iterable[tuple[str, str]]:
    config = model.config.to_dict()
    yield "family", config.pop("family")
    yield "model", type(model).__name__
    if hasattr(model, "labels"):
        yield "labels", ", ".join(model.labels)
    for name, value in config.items():
        yield name, str(value)
    if getattr(model, "windows", None) is not None:
        yield "windows", f"{model.windows} of at most {model.max_windows}"
    yield "text format", _text_format(model.text_preprocessor)


def _text_format(preprocessor: Any) -> str:
    if preprocessor is None:
        return "none"
    tokenizer = preprocessor.tokenizer
    words = [type(tokenizer).__name__, f"{len(preprocessor.vocabulary):,} tokens"]
    for name, (if_true, if_false) in _TOKENIZER_OPTIONS.items():
        if hasattr(tokenizer, name):
            words.append(if_true if getattr(tokenizer, name) else if_false)
    return f"{', '.join(words)}; texts of up to {preprocessor.sequence_length} tokens"


_TOKENIZER_OPTIONS = {  # words to print if the option is true, and if it is false
    "lowercase": ("case lowered", "case kept"),
    "strip_accents": ("accents stripped", "accents kept"),
    "split_cjk": ("CJK split", "CJK not split"),
    "add_prefix_space": ("a space put before the text", "no space put before the text"),
}


def _parameters(model: Any) -> Iterable[Sequence[str]]:
    """Yields rows of name, shape, type and count. Equal weights of all layers share one row."""
    from keras_bert.checkpoints.variables import named_variables

    rows = Counter(
        (re.sub(r"layer_\d+", "layer_*", name), tuple(variable.shape), variable.dtype)
        for name, variable in named_variables(model).items()
    )
    total = 0
    for (name, shape, dtype), times in rows.items():
        size = times
        for length in shape:
            size *= length
        total += size
        yield name, f"{list(shape)}", dtype, f"{size:,}"
    yield "total", "", "", f"{total:,}"


def _table(rows: Iterable[Sequence[str]]) -> str:
    rows = [("parameters", "shape", "type", "count"), *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{name:{widths[0]}}  {shape:{widths[1]}}  {dtype:{widths[2]}}  {count:>{widths[3]}}"
        for name, shape, dtype, count in rows
    )
