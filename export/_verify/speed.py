"""Measures an artifact's speed and memory."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.export._verify.signatures import Signature
from keras_bert.export.process import Process, Timing, running
from keras_bert.export.signatures import Arrays, ids_of

BATCHES = (1, 8, 32)
LENGTHS = (32, 128, 512)
THREADS = (1, 2)
USUAL = 128  # tokens, for measurements at a single length


@dataclasses.dataclass(frozen=True)
class Speed:
    """Speed and memory of one signature of an artifact.

    Args:
        latencies: time of a call on one thread, by (number of texts, tokens in each text).
        throughput: texts per second, by number of threads.
        shape: (number of texts, tokens in each text) at which the throughput was measured.
        cold_milliseconds: time to load the artifact and to answer one text, in a fresh process
            that has imported the runtime.
        peak_megabytes: peak memory of that process minus its memory before loading, in units of
            10^6 bytes.
    """

    latencies: Mapping[tuple[int, int], Timing]
    throughput: Mapping[int, float]
    shape: tuple[int, int]
    cold_milliseconds: float
    peak_megabytes: float

    @property
    def spread(self) -> float:
        """Largest spread of all latencies, which shows how noisy the machine was."""
        return max(timing.spread for timing in self.latencies.values())


def measure_speed(
    model: Any,
    path: str | os.PathLike,
    signature: Signature,
    texts: Any,
    seconds: float = 1.0,
    openvino: str = "",
) -> Speed:
    """Measures one signature of an artifact, in fresh processes.

    Ids are random and without padding. Texts are made long enough to fill the tokenizer's length.

    Args:
        model: the model that the artifact was made from.
        path: the artifact.
        signature: the artifact's signature to measure.
        texts: texts to make longer texts from, if the signature takes texts.
        seconds: time to measure each latency.
        openvino: as in `running`.

    Raises:
        ExportError: if the artifact cannot be run.
    """
    lengths, batches = (
        _lengths(model, signature),
        (signature.batch,) if signature.batch else BATCHES,
    )
    usual = max((length for length in lengths if length <= USUAL), default=min(lengths))
    sample = {length: _sample(model, signature, texts, length) for length in lengths}

    def time(process: Process, batch: int, length: int) -> Timing:
        inputs = {k: np.repeat(v, batch, axis=0) for k, v in sample[length].items()}
        return process.time(signature.name, inputs, seconds)

    with running(path, openvino=openvino) as process:
        _, first = process.run_once(signature.name, sample[usual])
        cold, peak = process.load_milliseconds + first, process.peak
        latencies = {(n, t): time(process, n, t) for t in lengths for n in batches}
    shape = (max(batches), usual)
    timings = {THREADS[0]: latencies[shape]}
    for threads in THREADS[1:]:
        with running(path, threads, openvino) as process:
            timings[threads] = time(process, *shape)
    throughput = {n: 1000 * shape[0] / timing.milliseconds for n, timing in timings.items()}
    return Speed(latencies, throughput, shape, cold, peak / 1e6)


def _lengths(model: Any, signature: Signature) -> tuple[int, ...]:
    """Returns the numbers of tokens to measure."""
    if signature.length is not None:
        return (signature.length,)
    longest = model.config.max_positions
    if signature.takes != "ids":
        longest = model.preprocessor.sequence_length
    return tuple(length for length in LENGTHS if length <= longest) or (longest,)


def _sample(model: Any, signature: Signature, texts: Any, length: int) -> Arrays:
    """Makes the signature's inputs for one text of `length` tokens."""
    if signature.takes == "ids":
        generator = np.random.default_rng(0)
        ids = generator.integers(0, model.config.vocabulary_size, (1, length), dtype="int32")
        return signature.inputs(None, ids_of(model, {"token_ids": ids}))
    several = isinstance(texts, tuple)
    columns = [[long_text(model, column, length)] for column in (texts if several else (texts,))]
    return signature.inputs(tuple(columns) if several else columns[0], {})


def long_text(model: Any, texts: Any, length: int) -> str:
    """Makes a text with at least this number of tokens, but not many more."""
    text = " ".join(texts) or "a"
    text = " ".join([text] * (1 + 2 * length // len(text.split() or [text])))
    ends = np.asarray(model.preprocessor.with_length(length)([text], return_offsets=True)["ends"])
    return text[: int(ends.max())] or text
