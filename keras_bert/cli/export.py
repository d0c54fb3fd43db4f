"""keras-bert export."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_bert.errors import InputError

FORMATS = ("saved_model", "tflite", "onnx")
QUANTIZATIONS = ("none", "float16", "dynamic")


@click.command("export")
@click.argument("model")
@click.argument("out")
@click.option(
    "--format",
    "formats",
    default=",".join(FORMATS),
    show_default=True,
    metavar="LIST",
    help="One or more of these, with commas between them.",
)
@click.option(
    "--quantize",
    type=click.Choice(QUANTIZATIONS),
    default="none",
    show_default=True,
    help="How the TFLite file stores its weights; dynamic is int8.",
)
@click.option("--verify", metavar="FILE", help="Compare on texts, one a line; prints a table.")
def command(model: str, out: str, formats: str, quantize: str, verify: str | None) -> None:
    """Write a model for other runtimes.

    MODEL is the directory of a model. OUT gets saved_model/, model.tflite (or
    model-float16.tflite, model-dynamic.tflite) and model.onnx.
    """
    chosen = _formats(formats)
    directory = Path(out)
    _check(directory)
    texts = _texts(verify) if verify else None

    import keras_bert
    from keras_bert import export

    loaded = keras_bert.load(model)
    writers: dict[str, Callable[[Path], Any]] = {
        "saved_model": lambda path: export.saved_model(loaded, path),
        "tflite": lambda path: export.tflite(loaded, path, quantize=quantize),
        "onnx": lambda path: export.onnx(loaded, path),
    }
    paths = [directory / _name(format, quantize) for format in chosen]
    for format, path in zip(chosen, paths, strict=True):
        writers[format](path)
        click.echo(str(path))
    if texts:
        click.echo(str(export.verify(loaded, paths, texts)))


def _name(format: str, quantize: str) -> str:
    suffix = "" if quantize == "none" else f"-{quantize}"
    names = {"saved_model": "saved_model", "tflite": f"model{suffix}.tflite", "onnx": "model.onnx"}
    return names[format]


def _formats(text: str) -> list[str]:
    formats = [name.strip() for name in text.split(",")]
    for name in formats:
        if name not in FORMATS:
            raise InputError(
                f"There is no format {name!r}; give one or more of {', '.join(FORMATS)} with "
                "commas between them."
            )
    return list(dict.fromkeys(formats))


def _check(directory: Path) -> None:
    """Refuses a place that holds something else than artifacts."""
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file; name a directory for the artifacts.")
    ours = {_name(format, quantize) for format in FORMATS for quantize in QUANTIZATIONS}
    others = sorted({path.name for path in directory.glob("*")} - ours)
    if others:
        raise InputError(
            f"{directory} is not empty and holds more than artifacts, such as {others[0]!r}; "
            "choose another directory."
        )


def _texts(path: str) -> list[str]:
    from keras_bert.text.files import read_lines

    return [line for line in read_lines(path) if line]
