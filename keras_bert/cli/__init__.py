"""The command `keras-bert`: one file per subcommand.

Only click is imported before a subcommand runs, so that `keras-bert --help` answers at once.
"""

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from keras_bert import __version__
from keras_bert.cli import (
    attention,
    convert,
    data_service,
    distill,
    evaluate,
    export,
    fill_mask,
    finetune,
    inspect,
    plot,
    predict,
    pretrain,
    tokenize,
    vocab,
)
from keras_bert.cli.quiet import quiet
from keras_bert.errors import KerasBertError, WorkerLostError

OK, WRONG_INPUT = 0, 2
TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
INTERRUPTED, NO_READER = 130, 141  # 128 and the number of the signal
_DEBUG = "--debug"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="keras-bert")
@click.option(_DEBUG, is_flag=True, expose_value=False, help="Show all messages and tracebacks.")
def group() -> None:
    """Pretrain BERT on your text, fine-tune it, use it, export it."""


for _module in (
    vocab,
    tokenize,
    pretrain,
    data_service,
    plot,
    distill,
    finetune,
    evaluate,
    predict,
    fill_mask,
    attention,
    export,
    convert,
    inspect,
):
    group.add_command(_module.command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Args:
        arguments: without the program's name; by default those of this process.

    Returns:
        0; 2 if something is wrong, which is said in one line on standard error; 75 if another
        worker is lost, so that the same commands go on; 130 if interrupted; 141 if whoever read
        the output has gone, which is not said.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    debug = _DEBUG in arguments[: _end_of_options(arguments)]
    if debug:  # it may stand anywhere
        arguments.remove(_DEBUG)
    with contextlib.nullcontext() if debug else quiet():
        try:
            return _run(arguments)
        except BrokenPipeError:
            return NO_READER
        except KeyboardInterrupt as error:
            _say(str(error) or "Interrupted.")
            return INTERRUPTED
        except Exception as error:
            if debug:
                traceback.print_exc()
            _say(_sentence(error))
            return TRY_AGAIN if isinstance(error, WorkerLostError) else WRONG_INPUT
        finally:
            _drop_unwritten()


def _run(arguments: list[str]) -> int:
    # `group.main` would print more than one line for wrong usage and for Ctrl-C.
    try:
        with group.make_context("keras-bert", arguments) as context:
            group.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return OK


def _end_of_options(arguments: list[str]) -> int:
    return arguments.index("--") if "--" in arguments else len(arguments)


def _sentence(error: Exception) -> str:
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "keras-bert"
        return f"{error.format_message()} See: {command} --help"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, KerasBertError):
        return str(error)
    return f"Unexpected {type(error).__name__}: {error} (add {_DEBUG} to see where)"


def _say(message: str) -> None:
    with contextlib.suppress(OSError):
        print("keras-bert:", " ".join(message.split("\n")), file=sys.stderr)


def _drop_unwritten() -> None:
    """Lets what could not be written lead nowhere, or Python would fail once more as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
