"""An artifact that runs in a process of its own, as users of it will run it."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from keras_bert.atomic import finish_interrupted
from keras_bert.errors import InputError
from keras_bert.export import worker
from keras_bert.export.artifact_checks import ExportError
from keras_bert.export.signatures import Arrays


@dataclasses.dataclass(frozen=True)
class Timing:
    """How long calls took.

    Args:
        milliseconds: their median.
        spread: half the distance of their quartiles, as a share of that.
    """

    milliseconds: float
    spread: float


class Process:
    """An artifact in its runtime, in a fresh process; made by `running`.

    Attributes:
        path: of the artifact.
        popen: the process itself.
        signatures: by name what they take and give; see `worker.Signatures`.
        runtime: its package and version.
        load_milliseconds: what loading took, once the runtime was imported.
        peak: bytes that the process had more at once, by the end of its last request, than when
            it had imported its runtime.
    """

    def __init__(self, path: Path, process: subprocess.Popen, errors: BinaryIO):
        self.path = path
        self.popen, self._errors = process, errors
        hello = self._receive()
        self.runtime = str(hello["runtime"])
        self.signatures: worker.Signatures = json.loads(str(hello["signatures"]))
        self.load_milliseconds = float(hello["milliseconds"])
        self.peak = 0

    def run(self, signature: str, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs for named inputs.

        Raises:
            ExportError: if the runtime refuses them.
        """
        outputs, _ = self.run_once(signature, inputs)
        return outputs

    def run_once(self, signature: str, inputs: Arrays) -> tuple[dict[str, np.ndarray], float]:
        """The outputs, and how many milliseconds they took."""
        reply = self._request(signature, inputs, 0)
        return reply, float(reply.pop("milliseconds"))

    def time(self, signature: str, inputs: Arrays, seconds: float) -> Timing:
        """How long a call takes, which is repeated for some time, three times at least."""
        reply = self._request(signature, inputs, max(seconds, 1e-9))
        return Timing(float(reply["milliseconds"]), float(reply["spread"]))

    def _request(self, signature: str, inputs: Arrays, seconds: float) -> dict[str, np.ndarray]:
        with contextlib.suppress(BrokenPipeError):
            message = {**inputs, "signature": signature, "seconds": seconds}
            worker.send(cast(BinaryIO, self.popen.stdin), message)
        reply = self._receive()
        if "error" in reply:
            reason = " ".join(str(reply["error"]).split())
            raise ExportError(f"Running {self.path} failed: {reason[:300]}.")
        self.peak = int(reply.pop("peak"))
        return reply

    def _receive(self) -> dict[str, np.ndarray]:
        reply = worker.receive(cast(BinaryIO, self.popen.stdout))
        if reply is None:
            self._errors.seek(0)
            lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            reason = lines[-1][:300] if lines else "its process ended without a word"
            raise ExportError(f"{self.path} cannot be run: {reason}.")
        return reply


@contextlib.contextmanager
def running(path: str | os.PathLike, threads: int = 1) -> Iterator[Process]:
    """An artifact in a process that ends with the block.

    Args:
        path: a directory with a SavedModel, a `.tflite` or an `.onnx` file.
        threads: so many are used for computing.

    Raises:
        InputError: if there is no artifact at the path.
        ExportError: if it cannot be loaded.
    """
    path = artifact(path)
    # -P: the folder of the script, in which there is an onnx.py, is no place to import from.
    command = [sys.executable, "-P", worker.__file__, str(path), str(threads)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
        ) as process,
    ):
        try:
            yield Process(path, process, errors)
        finally:
            process.kill()
            with contextlib.suppress(BrokenPipeError):  # of a request that nobody read
                cast(BinaryIO, process.stdin).close()


def artifact(path: str | os.PathLike) -> Path:
    """The path of an artifact.

    Raises:
        InputError: if there is none.
    """
    finish_interrupted(path)
    path, endings = Path(path), [ending for ending in worker.RUNTIMES if ending]
    is_file = path.suffix in endings and path.is_file()
    if not (is_file or (path / "saved_model.pb").is_file()):
        raise InputError(
            f"{path} is not an artifact: expected the directory of a SavedModel, or a file that "
            f"ends in {' or '.join(endings)}."
        )
    return path


def megabytes(path: Path) -> float:
    """The size of an artifact on disk, 10^6 bytes each."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
