"""Command `keras-bert inspect`."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click


@click.command("inspect")
@click.argument("model")
def command(model: str) -> None:
    """Say what a model is: family, sizes, heads, text format, and a table of its parameters.

    MODEL is a directory of ours, of Hugging Face, Google or KerasHub, or a model's name on the
    Hugging Face Hub. The weights are not read.
    """
    format, opened = _open(model)
    facts = [("format", format), *_facts(opened)]
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
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


def _facts(model: Any) -> Iterable[tuple[str, str]]:
    config = model.config.to_dict()
    yield "family", config.pop("family")
    yield "model", type(model).__name__
    if hasattr(model, "labels"):
        yield "labels", ", ".join(model.labels)
    for name, value in config.items():
        yield name, str(value)
    yield "text format", _text_format(model.preprocessor)


def _text_format(preprocessor: Any) -> str:
    if preprocessor is None:
        return "none"
    tokenizer = preprocessor.tokenizer
    ways = [way for name, ways in _WAYS.items() for way in _way(tokenizer, name, ways)]
    facts = [type(tokenizer).__name__, f"{len(preprocessor.vocabulary):,} tokens", *ways]
    return f"{', '.join(facts)}; texts of up to {preprocessor.sequence_length} tokens"


_WAYS = {  # option of a tokenizer: what it is when true, and when false
    "lowercase": ("case lowered", "case kept"),
    "strip_accents": ("accents stripped", "accents kept"),
    "split_cjk": ("CJK split", "CJK not split"),
    "add_prefix_space": ("a space put before the text", "no space put before the text"),
}


def _way(tokenizer: Any, name: str, ways: tuple[str, str]) -> list[str]:
    return [ways[0] if getattr(tokenizer, name) else ways[1]] if hasattr(tokenizer, name) else []


def _parameters(model: Any) -> Iterable[Sequence[str]]:
    """Rows of name, shape, type and count; equal ones of all layers in one."""
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
