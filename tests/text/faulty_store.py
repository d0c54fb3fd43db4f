"""A store that fails now and then, and that gives small pieces of its files."""

import io
from typing import ClassVar

from fsspec.spec import AbstractFileSystem


class Faulty(AbstractFileSystem):
    """Files that arrive in small pieces, with a fault at each call whose number `every` divides."""

    protocol = "faulty"
    files: ClassVar = {}
    every, calls, error = 5, 0, OSError("connection reset")

    @classmethod
    def call(cls):
        cls.calls += 1
        if cls.calls % cls.every == 0:
            raise cls.error

    def ls(self, path, detail=True, **options):
        self.call()
        found = [
            {"name": name, "size": len(content), "type": "file"}
            for name, content in self.files.items()
            if path in (name, name.rpartition("/")[0])
        ]
        if not found:
            raise FileNotFoundError(path)
        return found

    def _open(self, path, mode="rb", **options):
        self.call()
        return FaultyFile(self.files[path], self.call)


class FaultyFile(io.BytesIO):
    seeks, largest = True, 7

    def __init__(self, content, call):
        super().__init__(content)
        self.call = call

    def read(self, size=-1):
        self.call()
        return super().read(min(size, self.largest))

    def seek(self, *where):
        if not self.seeks:
            raise ValueError("Cannot seek streaming HTTP file")
        return super().seek(*where)
