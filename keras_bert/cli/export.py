"""Command `keras-bert export`: models for other runtimes."""

import importlib
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from keras_bert.atomic import remove_scratch
from keras_bert.cli.files import OVERWRITE, check_output, is_onnx, is_report, is_tflite
from keras_bert.cli.options import AS_TASK, COLUMNS, add, flag_of, given, opened_as, reader
from keras_bert.errors import InputError
from keras_bert.tasks.registry import task_of

FORMATS = {  # to how their weights can be stored
    "saved_model": ("none",),
    "tflite": ("none", "float16", "dynamic", "int8"),
    "onnx": ("none", "float16", "dynamic"),
}
QUANTIZATIONS = tuple(dict.fromkeys(itertools.chain(*FORMATS.values())))
NAMES = ("keras_bert", "huggingface", "tfhub")
OPTIONS = {  # formats that have each option
    "version": ("saved_model",),
    "names": ("saved_model",),
    "top_k": ("saved_model",),
    "sequence_length": tuple(FORMATS),
    "batch_size": ("tflite",),
    "representative": ("tflite",),
    "metadata": ("tflite",),
    "keep_float": ("tflite", "onnx"),
    "text": ("tflite", "onnx"),
    "opset": ("onnx",),
}
ONE_FILE = {"tflite": is_tflite, "onnx": is_onnx}  # formats of one file, and tests for it
MOST_TEXTS = 64  # of the validation texts, to compare outputs
PAGE = "report"


@click.command("export")
@click.argument("model")
@click.argument("out")
@AS_TASK
@click.option(
    "--format",
    "formats",
    multiple=True,
    default=tuple(FORMATS),
    show_default=True,
    metavar="LIST",
    help="One or more of these, with commas between them or one at a time.",
)
@click.option(
    "--quantize",
    type=click.Choice(QUANTIZATIONS),
    default="none",
    show_default=True,
    help="Type of stored weights: float16 or dynamic (int8) for TFLite and ONNX; int8 for TFLite, "
    "with int8 activations.",
)
@click.option(
    "--representative",
    metavar="FILE",
    help="int8: file of some hundred typical texts, one per line, or two with a tab between.",
)
@click.option(
    "--keep-float",
    metavar="PATTERN",
    multiple=True,
    help="Part of the names of layers that are not quantized; repeat it.",
)
@click.option("--text", is_flag=True, help="TFLite and ONNX files take texts instead of ids.")
@click.option(
    "--sequence-length",
    type=click.IntRange(3),
    metavar="TOKENS",
    help="Length of all texts; a TFLite file takes only this length.",
)
@click.option(
    "--batch-size", type=click.IntRange(1), metavar="TEXTS", help="TFLite: texts in a batch."
)
@click.option("--metadata", is_flag=True, help="TFLite: labels and vocabulary for MediaPipe.")
@click.option(
    "--version",
    type=click.IntRange(0),
    metavar="NUMBER",
    help="SavedModel: name of the directory below, as TensorFlow Serving needs it.",
)
@click.option("--names", type=click.Choice(NAMES), help="SavedModel: names of the inputs.")
@click.option("--top-k", type=click.IntRange(1), help="SavedModel: tokens for each mask.")
@click.option("--opset", type=int, help="ONNX: version of the operators.")
@click.option("--verify", metavar="FILE", help="Compare on texts, one a line; prints a table.")
@click.option(
    "--validation",
    metavar="FILE",
    help="Examples with labels: a quantized file is refused if the task's metric drops too far.",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(0),
    metavar="POINTS",
    help="Largest drop, of 100 points.  [default: 0.5]",
)
@click.option(
    "--report",
    metavar="PAGE.md",
    help="Write a page, and PAGE.html: differences, metric, size, speed, memory.",
)
@OVERWRITE
@add(*COLUMNS)
def command(
    model: str,
    out: str,
    as_task: str | None,
    formats: tuple[str, ...],
    quantize: str,
    verify: str | None,
    validation: str | None,
    max_drop: float | None,
    report: str | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Write a model for other runtimes.

    MODEL is the directory of a model. OUT gets saved_model/, model.tflite and model.onnx. Names of
    files include special options: model-int8.tflite, model-text.onnx.
    """
    chosen, directory = _formats(formats), Path(out)
    exporting = given({name: options.pop(name) for name in tuple(options) if name in OPTIONS})
    _check_options(chosen, quantize, exporting)
    _check_measuring(quantize, verify, validation, max_drop, report, options)
    _check_directory(directory, report)
    inputs = (model, verify, validation, exporting.get("representative"))
    for format in set(chosen) & set(ONE_FILE):
        artifact = directory / _file(format, quantize, bool(exporting.get("text")))
        check_output(artifact, inputs, ONE_FILE[format], overwrite)
    if report:
        for page in (Path(report), Path(report).with_suffix(".html")):
            check_output(page, inputs, is_report, overwrite)
    if "representative" in exporting:
        exporting["representative"] = _texts(exporting["representative"])
    texts = _texts(verify) if verify else None

    import keras_bert
    from keras_bert import export

    if report:
        from keras_bert.export._verify.report_page import check_page

        check_page(report)
    loaded: Any = keras_bert.load(model, task=opened_as(model, as_task))
    examples = None
    if validation:
        from keras_bert.export._verify.accuracy import official_metric
        from keras_bert.finetuning.tasks import usable, use_scores

        official_metric(loaded)  # fails for a model without one
        task = str(task_of(loaded))
        examples = reader(task, options)(validation)
        use_scores(loaded, examples)
        examples = usable(examples, loaded, options["on_error"])
        texts = texts or _inputs(task, examples.take(range(min(len(examples), MOST_TEXTS))))
    _cut(loaded, exporting.get("sequence_length"))
    jobs = {format: _arguments(format, quantize, exporting) for format in chosen}
    for format, arguments in jobs.items():  # before the first of them is written
        module = importlib.import_module(f"keras_bert.export._{format}.convert")
        module.check_arguments(loaded, **arguments)

    paths = []
    for format, arguments in jobs.items():
        path = directory / _file(format, quantize, bool(exporting.get("text")))
        if examples is not None and "quantize" in arguments:
            drop = 0.5 if max_drop is None else max_drop
            found = export.accept(loaded, path, examples, drop, **arguments)
            click.echo(f"{path}: {found}")
        else:
            getattr(export, format)(loaded, path, **arguments)
            path = path / str(arguments["version"]) if "version" in arguments else path
            click.echo(str(path))
        paths.append(path)
    if report:
        click.echo(str(export.report(loaded, paths, texts, report, examples=examples)))
    elif verify:
        click.echo(str(export.verify(loaded, paths, texts, examples=examples)))


def _formats(lists: Iterable[str]) -> list[str]:
    formats = [name.strip() for text in lists for name in text.split(",")]
    for name in formats:
        if name not in FORMATS:
            raise InputError(
                f"There is no format {name!r}; give one or more of {', '.join(FORMATS)} with "
                "commas between them."
            )
    return list(dict.fromkeys(formats))


def _arguments(format: str, quantize: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given options that the function of a format takes."""
    arguments = {name: value for name, value in given.items() if format in OPTIONS[name]}
    if format != "tflite":  # elsewhere it is that of texts, not of ids
        arguments.pop("sequence_length", None)
    if _is_quantized(format, quantize):
        return {"quantize": quantize, **arguments}
    return {k: v for k, v in arguments.items() if k not in ("keep_float", "representative")}


def _is_quantized(format: str, quantize: str) -> bool:
    return quantize in FORMATS[format] and quantize != "none"


def _check_options(chosen: Iterable[str], quantize: str, given: Mapping[str, Any]) -> None:
    """Refuses options that no chosen format has, and those that need another."""
    having = tuple(name for name, kinds in FORMATS.items() if quantize in kinds)
    needed = {f"--quantize {quantize}": having}
    needed |= {f"--{name.replace('_', '-')}": OPTIONS[name] for name in given}
    for option, formats in needed.items():
        if not set(formats) & set(chosen):
            raise click.UsageError(
                f"{option} is for {' and '.join(formats)}, which --format does not name."
            )
    if quantize == "none" and "keep_float" in given:
        raise click.UsageError("--keep-float is for quantized files; add --quantize.")
    if "keep_float" in given and quantize != "int8" and "tflite" in chosen:
        raise click.UsageError(
            f"--keep-float with --quantize {quantize} is for onnx alone: TFLite's converter lets "
            "layers be chosen for int8."
        )
    if (quantize == "int8") != ("representative" in given):
        raise click.UsageError(
            "--quantize int8 and --representative FILE belong together: ranges are measured on "
            "typical texts."
        )


def _check_measuring(
    quantize: str,
    verify: str | None,
    validation: str | None,
    max_drop: float | None,
    report: str | None,
    columns: Mapping[str, Any],
) -> None:
    """Refuses options without effect."""
    if validation is None:
        unused = given({"max_drop": max_drop, **columns}).keys() - {"on_error"}
        if unused:
            raise click.UsageError(f"{flag_of(min(unused))} is for --validation FILE.")
    elif quantize == "none" and not verify and not report:
        raise click.UsageError(
            "--validation judges quantized files, and is measured by --verify and --report; add "
            "--quantize or one of them."
        )
    if report and not (verify or validation):
        raise click.UsageError("--report needs texts; add --verify FILE or --validation FILE.")


def _check_directory(directory: Path, report: str | None) -> None:
    """Refuses a directory that holds other files than artifacts."""
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file; name a directory for the artifacts.")
    ours = {
        _file(format, quantize, text)
        for format, kinds in FORMATS.items()
        for quantize in kinds
        for text in (False, True)
    }
    pages = {PAGE, Path(report or PAGE).stem}
    ours |= {f"{page}.{ending}" for page in pages for ending in ("md", "html")}
    remove_scratch(directory)
    others = sorted({path.name for path in directory.glob("*")} - ours)
    if others:
        raise InputError(
            f"{directory} is not empty and holds more than artifacts, such as {others[0]!r}; "
            "choose another directory."
        )


def _file(format: str, quantize: str, text: bool) -> str:
    """Returns the name of an artifact."""
    if format not in OPTIONS["text"]:
        return format
    stored = quantize if _is_quantized(format, quantize) else ""
    return f"{'-'.join(filter(None, ('model', 'text' if text else '', stored)))}.{format}"


def _inputs(task: str, examples: Any) -> Any:
    """Returns the texts of examples; an embedder takes the texts of a pair one by one."""
    inputs = examples.inputs
    return inputs[0] if task == "embedder" and isinstance(inputs, tuple) else inputs


def _cut(model: Any, length: int | None) -> None:
    """Sets the length of a model's texts."""
    if length is None:
        return
    if length > model.config.max_positions:
        raise InputError(
            f"--sequence-length is {length}, but this model takes at most "
            f"{model.config.max_positions} tokens."
        )
    if getattr(model, "preprocessor", None) is not None:
        model.preprocessor = model.preprocessor.with_length(length)


def _texts(path: str) -> Any:
    """Returns the lines of a file; two lists if each has two texts with a tab between."""
    from keras_bert.text.files import read_lines

    lines = [line for line in read_lines(path) if line]
    if all(line.count("\t") == 1 for line in lines):
        return tuple(map(list, zip(*(line.split("\t") for line in lines), strict=True)))
    return lines
