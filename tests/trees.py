"""Directory trees, written and compared."""

import hashlib
import os
import re

FOREIGN = {".git/HEAD": "main", "notes.txt": "mine", "part/notes.txt": "mine"}
"""Files that no save may touch."""


def write(folder, files):
    """Writes texts by their relative names."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def tree(folder):
    """Returns the hash of each file, the target of each link and None for each folder, by name."""
    return {
        path.relative_to(folder).as_posix(): _content(path) for path in sorted(folder.rglob("*"))
    }


def state(folder):
    """Returns the tree as a set, without the random endings of scratch names."""
    ending = re.compile(r"(\.keras_bert-new-[^/]*)-\w{8}(?=/|$)")
    return frozenset((ending.sub(r"\1", name), x) for name, x in tree(folder).items())


def _content(path):
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
