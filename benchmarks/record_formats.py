"""Compare the package's records with ArrayRecord: size, and processor time of reading.

    pip install array_record
    python benchmarks/record_formats.py [--rows 100000]

Rows of token ids with Zipf's distribution are written as one shard, and as files of ArrayRecord
with one row in a record. Rates are rows per second of processor time of all threads.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from array_record.python import array_record_module as array_record

from keras_bert.pretraining.data.corpus import Lines
from keras_bert.pretraining.data.mapped_tokens import MappedFile, MappedTokens
from keras_bert.pretraining.data.records import write_shard

LENGTH = 126  # tokens of a row
BATCH = 64
OPTIONS = {
    "ArrayRecord, not compressed": "group_size:1,uncompressed",
    "ArrayRecord, zstd": "group_size:1,zstd",
    "ArrayRecord, zstd, 64 rows in a group": "group_size:64,zstd",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.zipf(1.3, (rows, LENGTH)), 30_521).astype(np.int32)
    print("| format | bytes a token | rows/s written | rows/s at random | rows/s in order |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records")
        lines = Lines(ids.ravel(), np.full(rows, LENGTH, np.int32), np.zeros(0, np.int32))
        written = seconds(partial(write_shard, path, lines, 0))
        read = partial(from_records, MappedTokens([MappedFile(path)]))
        report("records of this package", path, ids, written, read)
        for name, options in OPTIONS.items():
            path = Path(folder, options)
            written = seconds(partial(write_array_record, path, options, ids))
            reader = array_record.ArrayRecordReader(str(path), "readahead_buffer_size:0")
            report(name, path, ids, written, partial(from_array_record, reader))


def from_records(tokens: MappedTokens, numbers: np.ndarray) -> np.ndarray:
    return tokens[numbers[:, np.newaxis] * LENGTH + np.arange(LENGTH)]


def from_array_record(
    reader: array_record.ArrayRecordReader, numbers: np.ndarray
) -> list[np.ndarray]:
    return [np.frombuffer(row, np.int32) for row in reader.read(numbers.tolist())]


def write_array_record(path: Path, options: str, ids: np.ndarray) -> None:
    writer = array_record.ArrayRecordWriter(str(path), options)
    for row in ids:
        writer.write(row.tobytes())
    writer.close()


def report(name: str, path: Path, ids: np.ndarray, written: float, read: Callable) -> None:
    """Checks what is read, and prints a row of the table."""
    order = np.random.default_rng(1).permutation(len(ids))[: len(ids) // 5]
    np.testing.assert_array_equal(read(order[:BATCH]), ids[order[:BATCH]])
    rates = [len(ids) / written]
    for numbers in (order, np.arange(len(ids))):
        batches = np.array_split(numbers, len(numbers) // BATCH)
        rates.append(len(numbers) / seconds(partial(list, map(read, batches))))
    shown = " | ".join(f"{rate:,.0f}" for rate in rates)
    print(f"| {name} | {path.stat().st_size / ids.size:.2f} | {shown} |", flush=True)


def seconds(action: Callable) -> float:
    """Returns the processor time of an action."""
    began = time.process_time()
    action()
    return time.process_time() - began


if __name__ == "__main__":
    main()
