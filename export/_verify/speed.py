"""How fast an artifact is, and how much memory it takes."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.export._verify.signatures import Way
from keras_bert.export.process import Process, Timing, running
from keras_bert.export.signatures import Arrays, ids_of

BATCHES = (1, 8, 32)
LENGTHS = (32, 128, 512)
THREADS = (1, 2)
USUAL = 128  # tokens, for what is measured at one length only


@dataclasses.dataclass(frozen=True)
class Speed:
    """What was measured of one way into an artifact.

    Args:
        latencies: (texts, tokens of each) to the time of a call, on one thread.
        throughput: number of threads to texts per second.
        shape: texts and tokens of each, of which the throughput is.
        cold_milliseconds: loading, and the first answer to one text, in a fresh process that has
            imported the runtime.
        peak_megabytes: what that process took more at its peak than after importing the runtime,
            10^6 bytes each.
    """

    latencies: Mapping[tuple[int, int], Timing]
    throughput: Mapping[int, float]
    shape: tuple[int, int]
    cold_milliseconds: float
    peak_megabytes: float

    @property
    def spread(self) -> float:
        """The largest spread of a latency: how noisy the machine was."""
        return max(timing.spread for timing in self.latencies.values())


def measure_speed(
    model: Any, path: str | os.PathLike, way: Way, texts: Any, seconds: float = 1.0
) -> Speed:
    """Measures one way into an artifact, in fresh processes.

    Ids are random and without padding. Texts are made so long that they fill the length that the
    tokenizer inside gives all of them.

    Args:
        model: the model that the artifact was made from.
        path: the artifact.
        way: into it.
        texts: some, of which the texts are made, if the way takes texts.
        seconds: how long to measure each latency.

    Raises:
        ExportError: if the artifact cannot be run.
    """
    lengths, batches = _lengths(model, way), (way.batch,) if way.batch else BATCHES
    usual = max((length for length in lengths if length <= USUAL), default=min(lengths))
    sample = {length: _sample(model, way, texts, length) for length in lengths}

    def time(process: Process, batch: int, length: int) -> Timing:
        inputs = {k: np.repeat(v, batch, axis=0) for k, v in sample[length].items()}
        return process.time(way.signature, inputs, seconds)

    with running(path) as process:
        _, first = process.run_once(way.signature, sample[usual])
        cold, peak = process.load_milliseconds + first, process.peak
        latencies = {(n, t): time(process, n, t) for t in lengths for n in batches}
    shape = (max(batches), usual)
    timings = {THREADS[0]: latencies[shape]}
    for threads in THREADS[1:]:
        with running(path, threads) as process:
            timings[threads] = time(process, *shape)
    throughput = {n: 1000 * shape[0] / timing.milliseconds for n, timing in timings.items()}
    return Speed(latencies, throughput, shape, cold, peak / 1e6)


def _lengths(model: Any, way: Way) -> tuple[int, ...]:
    """The numbers of tokens to measure."""
    if way.takes != "ids":
        return (model.preprocessor.sequence_length,)
    if way.length is not None:
        return (way.length,)
    longest = model.config.max_positions
    return tuple(length for length in LENGTHS if length <= longest) or (longest,)


def _sample(model: Any, way: Way, texts: Any, length: int) -> Arrays:
    """One text of so many tokens, as the way takes it."""
    if way.takes == "ids":
        generator = np.random.default_rng(0)
        ids = generator.integers(0, model.config.vocabulary_size, (1, length), dtype="int32")
        return way.inputs(None, ids_of(model, {"token_ids": ids}))
    several = isinstance(texts, tuple)
    columns = [[long_text(model, column, length)] for column in (texts if several else (texts,))]
    return way.inputs(tuple(columns) if several else columns[0], {})


def long_text(model: Any, texts: Any, length: int) -> str:
    """A text that fills so many tokens, and not many more."""
    text = " ".join(texts) or "a"
    text = " ".join([text] * (1 + 2 * length // len(text.split() or [text])))
    ends = np.asarray(model.preprocessor.with_length(length)([text], return_offsets=True)["ends"])
    return text[: int(ends.max())] or text
