"""The log of a run as it is read, which needs no TensorFlow."""

import json
from pathlib import Path
from typing import Any

LOG = "log.jsonl"


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows of a log; none if there is no such file."""
    rows = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:  # the line at which a killed run was writing
                break
    return rows
