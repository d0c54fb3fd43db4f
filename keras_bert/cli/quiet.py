"""TensorFlow's chatter, kept off the terminal."""

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within the block, only Python's standard error reaches the terminal, and only our warnings.

    TensorFlow and absl write to file descriptor 2 from C++, before any of their settings can be
    reached. So the descriptor leads nowhere, and `sys.stderr` to where it led before.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        try:
            descriptor = sys.stderr.fileno()
        except (AttributeError, OSError, ValueError):  # a test has put something else there
            descriptor = None
        if descriptor == 2:
            stack.enter_context(_apart())
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger = logging.getLogger("keras_bert")
        logger.addHandler(handler)
        stack.callback(logger.removeHandler, handler)
        for noisy in ("absl", "tensorflow", "tf2onnx"):
            logging.getLogger(noisy).setLevel(logging.CRITICAL)
        yield


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Descriptor 2 leads nowhere, `sys.stderr` to the terminal."""
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
