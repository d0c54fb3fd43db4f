"""Runs an artifact in a separate process, as a user of the artifact would."""

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

from keras_bert.export import worker
from keras_bert.export.artifact_checks import ExportError
from keras_bert.export.formats import format_of
from keras_bert.export.signatures import Arrays


@dataclasses.dataclass(frozen=True)
class Timing:
    """Time of repeated calls.

    Args:
        milliseconds: median of the calls.
        spread: half the interquartile range, divided by the median.
    """

    milliseconds: float
    spread: float


class Process:
    """An artifact that runs in its runtime, in a fresh process. `running` makes it.

    Attributes:
        path: the artifact's path.
        openvino: as in `running`.
        popen: the process itself.
        signatures: inputs and outputs of each signature; see `worker.Signatures`.
        runtime: package and version of the runtime.
        load_milliseconds: time to load the artifact after the runtime was imported.
        peak: peak memory until the last request, minus the memory before loading, in bytes.
    """

    def __init__(self, path: Path, openvino: str, process: subprocess.Popen, errors: BinaryIO):
        self.path, self.openvino = path, openvino
        self.popen, self._errors = process, errors
        hello = self._receive()
        self.runtime = str(hello["runtime"])
        self.signatures: worker.Signatures = json.loads(str(hello["signatures"]))
        self.load_milliseconds = float(hello["milliseconds"])
        self.peak = 0

    def run(self, signature: str, inputs: Arrays) -> dict[str, np.ndarray]:
        """Returns the outputs for named inputs.

        Raises:
            ExportError: if the runtime raises an error.
        """
        outputs, _ = self.run_once(signature, inputs)
        return outputs

    def run_once(self, signature: str, inputs: Arrays) -> tuple[dict[str, np.ndarray], float]:
        """Returns the outputs and the milliseconds of the call."""
        reply = self._request(signature, inputs, 0)
        return reply, float(reply.pop("milliseconds"))

    def time(self, signature: str, inputs: Arrays, seconds: float) -> Timing:
        """Measures a call by repeating it for this time, at least three times."""
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
            reason = lines[-1][:300] if lines else "its process ended without a message"
            raise ExportError(f"{self.path} cannot be run: {reason}.")
        return reply


@contextlib.contextmanager
def running(path: str | os.PathLike, threads: int = 1, openvino: str = "") -> Iterator[Process]:
    """Loads an artifact in a process that ends when the `with` block ends.

    Args:
        path: an artifact of any format.
        threads: number of threads for computing.
        openvino: "float32" or "bfloat16" to run an ONNX file in OpenVINO with this precision, or ""
            for the format's own runtime.

    Raises:
        InputError: if there is no artifact at the path.
        ExportError: if the artifact cannot be loaded.
    """
    path, runtime = Path(path), format_of(path).runtime
    if openvino:
        runtime = runtime.with_name("openvino_runtime.py")
    command = [*_start(runtime), str(runtime), str(path), str(threads)]
    command += [openvino] if openvino else []
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
        ) as process,
    ):
        try:
            yield Process(path, openvino, process, errors)
        finally:
            process.kill()
            with contextlib.suppress(BrokenPipeError):  # the process ended before it read a request
                cast(BinaryIO, process.stdin).close()


def _start(runtime: Path) -> list[str]:
    """Returns the beginning of the command line: `worker.py`, without its arguments."""
    # -P: modules beside the script, such as quantization.py, must not hide other packages' modules.
    return [sys.executable, "-P", worker.__file__]


def megabytes(path: Path) -> float:
    """Returns the size of an artifact on disk, in units of 10^6 bytes."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
