import gzip

import pytest

from keras_bert.errors import InputError
from keras_bert.text.files import expand, iterate_lines, read_lines


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_blank_lines_and_file_ends_end_documents(tmp_path):
    write(tmp_path / "b.txt", "\n\n one \ntwo\n \n\t\nthree")
    write(tmp_path / "a.txt", "zero\r\n\r\n")
    lines = list(iterate_lines(tmp_path / "*.txt"))
    assert lines == ["zero", "", "one", "two", "", "three", ""]


def test_gzip_is_known_by_its_content(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress("ä\nb\n".encode()))
    (tmp_path / "y").write_bytes(gzip.compress(b"c"))
    assert list(iterate_lines([tmp_path / "x.gz", tmp_path / "y"])) == ["ä", "b", "", "c", ""]


def test_only_line_feeds_end_lines(tmp_path):
    path = write(tmp_path / "x", "\ufeffa\u2028b\x85c\x0bd\x0ce\r\nf\0g\n")
    assert list(read_lines(path)) == ["a\u2028b\x85c\x0bd\x0ce", "f\0g"]


def test_expand_sorts_and_takes_each_file_once(tmp_path):
    for name in ("b", "a", "c[1]"):
        write(tmp_path / name, "x")
    names = [p.name for p in expand([tmp_path / "c[1]", tmp_path / "b", tmp_path / "*"])]
    assert names == ["c[1]", "b", "a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x is empty"),
        (b" \n\t\n", "x is empty"),
        (b"good\nbad \xe9t\xe9\n", "x, line 2: byte 0xe9 at position 5 is not UTF-8"),
        ("text".encode("utf-16"), "x is a binary file"),
        (b"\x00\x01\x02\x03" * 100, "x is a binary file"),
        (b"PK\x03\x04\x00\x00\xff\xfe words", "x is a binary file"),
        (gzip.compress(b"text" * 1000, mtime=0)[:-9], "x cannot be read"),
        (gzip.compress(b"text" * 1000, mtime=0)[:20] + b"zzzzzzzzzzzz", "x cannot be read"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = write(tmp_path / "x", content)
    with pytest.raises(InputError, match=message):
        list(iterate_lines(path))


def test_missing_files(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        list(iterate_lines(tmp_path / "none.txt"))
    with pytest.raises(InputError, match="does not exist"):
        list(iterate_lines(str(tmp_path / "*.txt")))
    with pytest.raises(InputError, match="is a directory"):
        list(iterate_lines(tmp_path))
    with pytest.raises(InputError, match="No text file"):
        list(iterate_lines([]))
