"""Subcommand `export`: writes a model for other runtimes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from keras_bert.cli.files import OVERWRITE, check_output, is_report
from keras_bert.cli.options import AS_TASK, COLUMNS, COMMANDS, add, flag_of, given, reader
from keras_bert.errors import InputError
from keras_bert.export import formats
from keras_bert.extras import require
from keras_bert.tasks.registry import task_of

REPORTS = ("report.md", "report.html")
"""Files in a directory of artifacts that may be pages of an earlier report."""


def _format_options(function: Callable) -> Callable:
    """Adds the options of all formats."""
    for option in reversed(formats.OPTIONS.values()):
        kind: Any = option.type if option.type in (bool, int) else str
        kind = click.IntRange(option.minimum) if option.minimum is not None else kind
        settings = {
            "type": click.Choice(option.choices) if option.choices else kind,
            "is_flag": option.type is bool,
            "multiple": option.type is list,
            "metavar": option.metavar,
            "help": option.help,
        }
        function = click.option(option.flag, **settings)(function)
    return function


@click.command("export")
@click.argument("model")
@click.argument("out")
@AS_TASK
@click.option(
    "--format",
    "lists",
    multiple=True,
    default=tuple(formats.FORMATS),
    show_default=True,
    metavar="LIST",
    help="Formats to write, separated by commas; or repeat the option.",
)
@click.option(
    "--quantize",
    type=click.Choice(tuple(formats.QUANTIZATIONS)),
    default="none",
    show_default=True,
    help=f"How files store weights: {formats.quantizations_help()}. Other formats keep float32.",
)
@_format_options
@click.option(
    "--verify",
    metavar="FILE",
    help="Compare with the Keras model on these texts, one in each line; prints a table.",
)
@click.option(
    "--validation",
    metavar="FILE",
    help="Examples with labels. A quantized or bfloat16 artifact is not written if the task's "
    "metric drops by more than --max-drop on them, and by more than chance explains.",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(0),
    metavar="POINTS",
    help="Largest drop of the metric that is allowed, in points of 100.  [default: 0.5]",
)
@click.option(
    "--report",
    metavar="PAGE.md",
    help="Write PAGE.md and PAGE.html with differences, metric, size, speed and memory.",
)
@click.option(
    "--openvino",
    is_flag=True,
    help="In --verify and --report, run ONNX files also in OpenVINO, in float32 and bfloat16.",
)
@OVERWRITE
@add(*COLUMNS)
def command(
    model: str,
    out: str,
    as_task: str | None,
    lists: tuple[str, ...],
    quantize: str,
    verify: str | None,
    validation: str | None,
    max_drop: float | None,
    report: str | None,
    openvino: bool,
    overwrite: bool,
    **options: Any,
) -> None:
    """Write a model for other runtimes.

    MODEL is the directory of a model. The command writes an artifact of each format into the
    directory OUT. Their names tell the options: model-int8.tflite, model-text.onnx.
    """
    chosen = formats.formats_named([name.strip() for text in lists for name in text.split(",")])
    directory = Path(out)
    pages = [Path(report), Path(report).with_suffix(".html")] if report else []
    exporting = given({name: options.pop(name) for name in formats.OPTIONS})
    try:
        formats.check_options(chosen, quantize, exporting)
    except InputError as error:
        raise click.UsageError(str(error)) from None
    jobs = {format: format.arguments(quantize, exporting) for format in chosen}
    rounded = any(map(formats.rounds, jobs.values()))
    _check_measuring(rounded, verify, validation, max_drop, report, options)
    if openvino and not (verify or report):
        raise click.UsageError("--openvino has no effect here; add --verify FILE or --report PAGE.")
    if openvino:
        if formats.ONNX not in chosen or exporting.get("text"):
            raise click.UsageError("--openvino is for ONNX files that take ids; write one.")
        require("openvino", "openvino", "Measuring in OpenVINO")
    formats.check_directory(directory, [*REPORTS, *(page.name for page in pages)])
    paths = {format: directory / format.file_name(jobs[format]) for format in chosen}
    files = {name: exporting[name] for name in exporting if formats.OPTIONS[name].type is Path}
    inputs = (model, verify, validation, *files.values())
    for format, path in paths.items():
        check_output(path, inputs, format.is_content, overwrite)
    for page in pages:
        check_output(page, inputs, is_report, overwrite)
    for arguments in jobs.values():
        arguments |= {name: _read_texts(files[name]) for name in files if name in arguments}
    texts = _read_texts(verify) if verify else None

    from tqdm import tqdm

    import keras_bert
    from keras_bert import export
    from keras_bert.export._verify.accuracy import official_metric
    from keras_bert.export._verify.report_page import check_page
    from keras_bert.export.signatures import set_length
    from keras_bert.finetuning.tasks import usable, use_scores

    if report:
        check_page(report)
    loaded: Any = keras_bert.load(model, task=COMMANDS[as_task] if as_task else None)
    examples = None
    if validation:
        official_metric(loaded)  # raises an error if the model has no metric
        examples = reader(str(task_of(loaded)), options)(validation)
        use_scores(loaded, examples)
        examples = usable(examples, loaded, options["on_error"])
    set_length(loaded, exporting.get("sequence_length"))
    for format, arguments in jobs.items():  # check all before the first artifact is written
        format.check_arguments(loaded, **arguments)
    for format, arguments in tqdm(jobs.items(), "Exporting", disable=None, leave=False):
        if examples is not None and formats.rounds(arguments):
            drop = 0.5 if max_drop is None else max_drop
            found = export.check_accuracy(loaded, paths[format], examples, drop, **arguments)
            paths[format] = formats.versioned(paths[format], arguments.get("version"))
            click.echo(f"{paths[format]}: {found}")
        else:
            paths[format] = format.write(loaded, paths[format], **arguments)
            click.echo(str(paths[format]))
    written = list(paths.values())
    if report:
        options = {"examples": examples, "openvino": openvino}
        click.echo(str(export.report(loaded, written, texts, report, **options)))
    elif verify:
        click.echo(str(export.verify(loaded, written, texts, examples=examples, openvino=openvino)))


def _check_measuring(
    rounded: bool,
    verify: str | None,
    validation: str | None,
    max_drop: float | None,
    report: str | None,
    columns: Mapping[str, Any],
) -> None:
    """Raises a usage error for options of measuring that would have no effect."""
    if validation is None:
        unused = given({"max_drop": max_drop, **columns}).keys() - {"on_error"}
        if unused:
            raise click.UsageError(f"{flag_of(min(unused))} is for --validation FILE.")
    elif not (rounded or verify or report):
        raise click.UsageError(
            "--validation has no effect here. Add --quantize or --dtype bfloat16 to check an "
            "artifact, or --verify or --report to see the metric."
        )
    if report and not (verify or validation):
        raise click.UsageError("--report needs texts; add --verify FILE or --validation FILE.")


def _read_texts(path: str) -> Any:
    """Returns a file's lines, or a tuple of two lists if each line has two texts and a tab."""
    from keras_bert.text.files import read_lines

    lines = [line for line in read_lines(path) if line]
    if not lines:
        raise InputError(f"{path} has no texts; write one in each line.")
    if all(line.count("\t") == 1 for line in lines):
        return tuple(map(list, zip(*(line.split("\t") for line in lines), strict=True)))
    return lines
