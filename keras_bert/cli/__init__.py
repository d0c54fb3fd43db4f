"""Command `keras-bert`: one file per subcommand, and `distill` beside `pretrain`.

Before a subcommand runs, only click is imported, so that `keras-bert --help` answers at once.
"""

import contextlib
import importlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence

import click

from keras_bert import __version__
from keras_bert.errors import KerasBertError, WorkerLostError

OK, WRONG_INPUT = 0, 2
TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
INTERRUPTED, NO_READER = 130, 141  # 128 and the number of the signal
_DEBUG = "--debug"


_SUBCOMMANDS = {
    "vocab": "vocab.command",
    "tokenize": "tokenize.command",
    "pretrain": "pretrain.command",
    "distill": "pretrain.distill",
    "data-service": "data_service.command",
    "plot": "plot.command",
    "finetune": "finetune.command",
    "evaluate": "evaluate.command",
    "predict": "predict.command",
    "fill-mask": "fill_mask.command",
    "attention": "attention.command",
    "export": "export.command",
    "convert": "convert.command",
    "inspect": "inspect.command",
}
"""Modules and names of the subcommands."""


class _Group(click.Group):
    """Group that imports a subcommand's module when the subcommand is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # If the name is unknown, import all subcommands, so that click can suggest one.
        for known in [cmd_name] if cmd_name in _SUBCOMMANDS else _SUBCOMMANDS:
            if known not in self.commands:
                module, _, name = _SUBCOMMANDS[known].partition(".")
                self.add_command(getattr(importlib.import_module(f"{__name__}.{module}"), name))
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="keras-bert")
@click.option(_DEBUG, is_flag=True, expose_value=False, help="Show all messages and tracebacks.")
def group() -> None:
    """Pretrain BERT on your text, fine-tune it, use it, export it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Args:
        arguments: arguments without the program's name. By default, the process's own arguments.

    Returns:
        The exit code:

        - 0: success.
        - 2: an error, with one line on standard error.
        - 75: another worker was lost. Starting the same commands again continues the run.
        - 130: interrupted.
        - 141: the program that reads the output has ended. There is no message.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    debug = _DEBUG in arguments[: _end_of_options(arguments)]
    if debug:  # --debug may stand anywhere
        arguments.remove(_DEBUG)
    with contextlib.nullcontext() if debug else _quiet():
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
    """Drops output that cannot be written. Otherwise Python would fail again when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides TensorFlow's messages; only Python's standard error reaches the terminal.

    TensorFlow and absl write to file descriptor 2 from C++, before their log levels can be set.
    So while the `with` block runs, the descriptor discards everything, and `sys.stderr` writes to
    the terminal directly.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        try:
            descriptor = sys.stderr.fileno()
        except (AttributeError, OSError, ValueError):  # a test has replaced sys.stderr
            descriptor = None
        if descriptor == 2:
            stack.enter_context(_apart())
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger = logging.getLogger("keras_bert")
        logger.addHandler(handler)
        stack.callback(logger.removeHandler, handler)
        for noisy in ("absl", "tensorflow", "tf2onnx"):
            logging.getLogger(noisy).setLevel(logging.CRITICAL)
        yield


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Makes descriptor 2 discard everything, and `sys.stderr` write to the terminal."""
    original = sys.stderr
    original.flush()
    terminal = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = os.fdopen(terminal, "w", 1, encoding=original.encoding, errors="backslashreplace")
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        sys.stderr.close()
        sys.stderr = original
