"""A file of results: one JSON line for each finished run."""

import datetime
import json
import os


def append(path, **run):
    """Appends a line with the date, the number of processors and the given fields."""
    run = {
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processors": os.cpu_count(),
        **run,
    }
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]
