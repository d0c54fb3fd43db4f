import gzip
import io
import itertools
import json
import sys
import tarfile
import zipfile

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from backports import zstd

from keras_bert.errors import InputError, UnreadableFileError
from keras_bert.text import remote
from keras_bert.text.files import (
    Span,
    can_be_divided,
    expand,
    file_size,
    iterate_lines,
    read_document_lines,
    read_lines,
)
from tests.text.faulty_store import Faulty, FaultyFile


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_blank_lines_and_file_ends_end_documents(tmp_path):
    write(tmp_path / "b.txt", "\n\n one \ntwo\n \n\t\nthree")
    write(tmp_path / "a.txt", "zero\r\n\r\n")
    lines = list(iterate_lines(tmp_path / "*.txt"))
    assert lines == ["zero", "", "one", "two", "", "three", ""]


@pytest.mark.parametrize("size", [1, 7, 30, 1000])
def test_spans_have_the_lines_of_the_file(tmp_path, size):
    content = "\ufeffsun\r\n\nmoon\nsea \n\n \nsälzig\n\u200b\n" + "tree " * 20 + "\nbird"
    path = write(tmp_path / "a.txt", content.encode())
    starts = range(0, path.stat().st_size, size)
    spans = [Span(*each) for each in itertools.pairwise([*starts, None])]
    assert len(spans) == len(starts)
    lines = [line for span in spans for line in read_document_lines(path, span=span)]
    once = [line for line, _ in itertools.groupby(lines)]  # no line is there twice
    assert once == [*iterate_lines(path)]


def test_spans_of_json_lines(tmp_path):
    path = write(tmp_path / "a.jsonl", json_lines(DOCUMENTS))
    size = path.stat().st_size
    spans = [Span(0, size // 3), Span(size // 3, size // 2), Span(size // 2, None)]
    lines = [line for span in spans for line in read_document_lines(path, span=span)]
    assert lines == [*iterate_lines(path)]
    path.write_bytes(path.read_bytes() + b"{\n")
    with pytest.raises(InputError, match=r"a.jsonl after byte \d+, line \d+: this is not JSON"):
        [*read_document_lines(path, span=spans[-1])]


def test_what_can_be_divided(contents, faulty, monkeypatch):
    """Only text and JSON lines, if they are not compressed and the store can seek."""
    divided = {name for name in NAMES if can_be_divided(f"faulty://bucket/{name}")}
    assert divided == {"a.txt", "a.json", "a.jsonl"}
    monkeypatch.setattr(FaultyFile, "seeks", False)
    monkeypatch.setattr(Faulty, "every", 10**6)
    assert not can_be_divided("faulty://bucket/a.txt")
    assert not can_be_divided("zip://a.txt::faulty://bucket/a.zip")


def test_a_bad_byte_in_a_span(tmp_path):
    path = write(tmp_path / "a.txt", b"sun\nmoon\nsea \xff\n")
    with pytest.raises(InputError, match=r"a.txt, after byte 9: byte 0xff at position 5 is not"):
        [*read_lines(path, Span(3, None))]


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
    names = expand([tmp_path / "c[1]", tmp_path / "b", tmp_path / "*"])
    assert names == [str(tmp_path / name) for name in ("c[1]", "b", "a")]


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


DOCUMENTS = ["Ein Fluß.\n\n  zwei \r\ndrei", "one line", "\n \n", "語\na\u2028b"]
ITEMS = ["Ein Fluß.", "zwei", "drei", "", "one line", "", "語", "a\u2028b", ""]


def json_lines(documents):
    rows = [{"id": 1, "text": text} for text in documents]
    return "\n\n".join(json.dumps(row) for row in rows).encode()


def parquet_bytes(documents, name="text", **options):
    buffer = io.BytesIO()
    table = pa.table({"id": range(len(documents)), name: documents})
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def tfrecords(path, documents, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for text in documents:
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
            features = tf.train.Features(feature={"text": feature})
            writer.write(tf.train.Example(features=features).SerializeToString())
    return path.read_bytes()


def add_to_tar(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def tar_bytes(documents):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number, text in enumerate(documents):
            if number == 1:
                add_to_tar(archive, "data/1.json", json.dumps({"text": text}).encode())
            else:
                add_to_tar(archive, f"data/{number}.txt", text.encode())
    return buffer.getvalue()


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    scratch = tmp_path_factory.mktemp("tfrecords") / "x"
    plain = "\n\n".join(DOCUMENTS).replace("\n\n  zwei", "\n  zwei").encode()
    return {
        "a.txt": plain,
        "a": gzip.compress(plain),
        "a.txt.zst": zstd.compress(plain[:20]) + zstd.compress(plain[20:]),  # two frames
        "a.json": json_lines(DOCUMENTS),
        "a.jsonl": b"\xef\xbb\xbf" + json_lines(DOCUMENTS),
        "a.00001-of-00002.json.gz": gzip.compress(json_lines(DOCUMENTS)),
        "a.JSONL.zst": zstd.compress(json_lines(DOCUMENTS)),
        "a.parquet": parquet_bytes(DOCUMENTS, row_group_size=2),
        "a.tfrecord": tfrecords(scratch, DOCUMENTS),
        "a.tfrecord-00001-of-00002": tfrecords(scratch, DOCUMENTS),
        "a.tfrecords.gz": tfrecords(scratch, DOCUMENTS, "GZIP"),
        "a.tar": tar_bytes(DOCUMENTS),
        "a.tar.gz": gzip.compress(tar_bytes(DOCUMENTS)),
    }


NAMES = [
    "a.txt",
    "a",
    "a.txt.zst",
    "a.json",
    "a.jsonl",
    "a.00001-of-00002.json.gz",
    "a.JSONL.zst",
    "a.parquet",
    "a.tfrecord",
    "a.tfrecord-00001-of-00002",
    "a.tfrecords.gz",
    "a.tar",
    "a.tar.gz",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_lines_of_its_documents(tmp_path, contents, name):
    path = write(tmp_path / name, contents[name])
    assert list(iterate_lines(path)) == ITEMS
    for start in range(len(ITEMS) + 2):
        assert list(read_document_lines(path, start=start)) == ITEMS[start:]
    assert file_size(path) == len(contents[name])


def test_other_names_of_the_field_and_missing_texts(tmp_path):
    write(tmp_path / "a.jsonl", '{"body": "x"}\n{"body": null}\n{"body": "y\\ud800"}')
    write(tmp_path / "b.parquet", parquet_bytes(["x", None, "y"], name="body"))
    write(tmp_path / "c.parquet", parquet_bytes([b"x", b"", b"y"], name="body"))
    assert list(iterate_lines(tmp_path / "a.jsonl", "body")) == ["x", "", "y\ufffd", ""]
    assert list(iterate_lines(tmp_path / "*.parquet", "body")) == ["x", "", "y", ""] * 2


def test_large_records_of_tfrecord_files(tmp_path):
    """Their lengths are around the size of a block of the checksum."""
    documents = ["é" * length for length in (0, 1, 120, 121, 122, 123, 124, 125, 126, 200_000)]
    tfrecords(tmp_path / "a.tfrecord", documents)
    lines = [item for text in documents[1:] for item in (text, "")]
    assert list(iterate_lines(tmp_path / "a.tfrecord")) == lines


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\n\n{"text": 1', "a.jsonl, line 3: this is not JSON"),
        ("a.jsonl", b'["x"]', 'a.jsonl, line 1: expected an object, {"text"'),
        ("a.jsonl", b'{"text": ["x"]}', "line 1: field 'text' is of type list, not text"),
        (
            "a.json",
            b'{"text": "x"}\n{"a": 1, "b": 2}',
            "line 2 has no field 'text'. It has 'a', 'b'",
        ),
        ("a.jsonl", b'{"text": " "}', "a.jsonl is empty: expected text in the field 'text'"),
        ("a.jsonl", b"", "a.jsonl is empty"),
        (
            "a.parquet",
            parquet_bytes(["x"], name="b"),
            "record 1 has no field 'text'. It has 'id', 'b'",
        ),
        ("a.parquet", parquet_bytes([1]), "a.parquet, record 1: field 'text' is of type int"),
        ("a.parquet", parquet_bytes([b"x", b"\xff"]), "record 2: byte 0xff at position 1 of field"),
        ("a.parquet", b"PAR1 but nothing else", "a.parquet is not a readable Parquet file"),
        ("a.parquet", b"", "a.parquet is not a readable Parquet file"),
        ("a.tfrecord", b"x" * 50, "a.tfrecord, record 1: damaged, or the file is not a TFRecord"),
        ("a.tfrecord", b"", "a.tfrecord is empty"),
        ("a.txt.zst", zstd.compress(b"text" * 1000)[:-3], "a.txt.zst cannot be read: .*ended"),
        ("a.zst", b"\x28\xb5\x2f\xfd" + b"zzzzzzzzzzz", "a.zst cannot be read: "),
        ("a.jsonl.gz", gzip.compress(b"text" * 1000, mtime=0)[:-9], "a.jsonl.gz cannot be read"),
    ],
)
def test_bad_records(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=message):
        list(iterate_lines(path))


def read_until_error(path, **options):
    noticed = []
    lines = [*read_document_lines(path, on_unreadable=noticed.append, **options)]
    assert [file.address for file in noticed] == [str(path)]
    return lines, noticed[0].error


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "sun\n\nmoon\nsea \udcff\ntree", ["sun", "", "moon", ""]),
        ("a.txt", "sun\n\n\udcff\ntree", ["sun", ""]),
        ("a.txt", "\udcff", []),
        ("a.jsonl", '{"text": "sun\\nmoon"}\n{"te\n{"text": "sea"}', ["sun", "moon", ""]),
        ("a.parquet", "PAR1", []),
    ],
)
def test_an_unreadable_file_has_the_lines_before_its_first_error(tmp_path, name, content, expected):
    path = write(tmp_path / name, content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UnreadableFileError) as stopped:
        [*read_document_lines(path)]
    for start in range(len(expected) + 2):
        lines, error = read_until_error(path, start=start)
        assert lines == expected[start:]
        assert error == str(stopped.value)


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_a_cut_file_has_the_same_lines_in_each_reading(tmp_path, compress):
    text = "\n".join(f"{number} {number**9}" for number in range(40_000))
    path = write(tmp_path / "a.txt", compress(text.encode())[:-9])
    lines, error = read_until_error(path)
    assert "a.txt cannot be read: " in error
    assert len(lines) > 20_000
    assert [*lines[:-1], ""] == [*text.split("\n")[: len(lines) - 1], ""]
    assert read_until_error(path, start=12_345)[0] == lines[12_345:]


def test_a_changed_file_is_not_read(tmp_path):
    path = write(tmp_path / "a.txt", "sun\nmoon")
    assert [*read_document_lines(path, size=8)] == ["sun", "moon", ""]
    lines, error = read_until_error(path, size=7)
    assert lines == []
    assert error.endswith(
        "a.txt has changed: it has 8 bytes, but had 7 at first; restore the file."
    )
    path.unlink()
    assert "a.txt does not exist" in read_until_error(path, size=8)[1]


def test_errors_of_options_and_of_packages_are_raised(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    write(tmp_path / "a.jsonl", '{"body": "x"}')
    write(tmp_path / "b.txt", zstd.compress(b"x"))
    for name, message in (("a.jsonl", "no field 'text'"), ("b.txt", "needs backports.zstd")):
        with pytest.raises(InputError, match=message):
            read_until_error(tmp_path / name)


def test_damaged_parquet_pages(tmp_path):
    text = [f"document {i} " * 20 for i in range(200)]
    whole = parquet_bytes(text, row_group_size=100, compression="gzip")
    path, found = write(tmp_path / "a.parquet", whole), 0
    for position in range(len(whole) // 3, len(whole), 97):
        write(path, whole[:position] + b"\0\xff\0\xff" + whole[position + 4 :])
        try:
            list(iterate_lines(path))
        except InputError as error:
            found += "a.parquet is not a readable Parquet file after record" in str(error)
    assert found


def test_other_files_in_a_tar_archive(tmp_path):
    """Directories, links and other files are passed over."""
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path, "folder", recursive=False)
        for name, content in (("a.jpg", b"\xff"), ("a.cls", b"3"), ("b.TXT", b" sun \n\nmoon")):
            add_to_tar(archive, name, content)
        add_to_tar(archive, "folder/._b.txt", b"\xff")  # macOS makes such files
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo("c.txt")
            link.type, link.linkname = kind, "b.TXT"
            archive.addfile(link)
        add_to_tar(archive, "d.txt", b"star")
    assert list(iterate_lines(tmp_path / "a.tar")) == ["sun", "moon", "", "star", ""]
    for name, content, message in (
        ("x.json", b"{}", "a.tar, x.json has no field 'text'. It has no fields"),
        ("x.json", b"{", "a.tar, x.json: this is not JSON"),
        ("x.txt", b"\xff", "a.tar, x.txt: byte 0xff at position 1 of field 'text' is not UTF-8"),
    ):
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            add_to_tar(archive, name, content)
        with pytest.raises(InputError, match=message):
            list(iterate_lines(tmp_path / "a.tar"))


def test_damaged_tar_archives(tmp_path, contents):
    """Neither a cut archive nor a damaged header ends the archive in silence."""
    whole = contents["a.tar"]
    end = whole.rindex(b"\na\xe2") // 512 * 512 + 512  # of the last member
    for length in [0, 1, 511, 512, 513, *range(514, end, 97), end]:
        path = write(tmp_path / "a.tar", whole[:length])
        with pytest.raises(UnreadableFileError, match="a.tar is not a readable tar archive: "):
            list(iterate_lines(path))
    for position in range(0, end, 512):  # of each header or content
        path = write(tmp_path / "a.tar", whole[:position] + b"\xff" + whole[position + 1 :])
        with pytest.raises(UnreadableFileError, match=r"a.tar( is not a readable tar|, data/)"):
            list(iterate_lines(path))


def test_damaged_tfrecords(tmp_path, contents):
    whole = contents["a.tfrecord"]
    first = 16 + int.from_bytes(whole[:8], "little")
    for end in range(first + 1, first + 40):
        path = write(tmp_path / "a.tfrecord", whole[:end])
        with pytest.raises(InputError, match="a.tfrecord, record 2: (damaged|the file ends)"):
            list(iterate_lines(path))
    for position in range(first, first + 40):
        flipped = bytes([whole[position] ^ 1])
        path = write(tmp_path / "a.tfrecord", whole[:position] + flipped + whole[position + 1 :])
        with pytest.raises(InputError, match="a.tfrecord, record 2: "):
            list(iterate_lines(path))


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"a": tf.train.Feature(), "b": tf.train.Feature()}, "no field 'text'. It has 'a', 'b'"),
        (
            {"text": tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))},
            "field 'text' is a int64_list; expected a bytes_list",
        ),
        (None, "record 1: expected a tf.train.Example"),
    ],
)
def test_other_examples(tmp_path, feature, message):
    record = b"\xff\xff"
    if feature:
        record = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(record)
    with pytest.raises(InputError, match=message):
        list(iterate_lines(tmp_path / "a.tfrecord"))


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("a.parquet", "pyarrow.parquet", "parquet"), ("a.txt.zst", "backports.zstd", "zstd")],
)
def test_missing_packages_are_named(tmp_path, contents, monkeypatch, name, module, extra):
    path = write(tmp_path / name, contents[name])
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"needs {module} .*\[{extra}\]"):
        list(iterate_lines(path))


def test_packages_of_stores_are_named(monkeypatch):
    def missing(protocol):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(InputError, match=r"s3://a/b.txt cannot be opened: Install s3fs"):
        expand("s3://a/b.txt")


def test_an_unknown_protocol():
    with pytest.raises(InputError, match="foo://a/b.txt cannot be opened: Protocol not known: foo"):
        expand("foo://a/b.txt")


def test_addresses_and_globs(contents):
    memory = fsspec.filesystem("memory")
    for name, content in contents.items():
        memory.pipe(f"/addresses/{name}", content)
    memory.pipe("/addresses/more/b[1].txt", b"more")
    root = "memory:///addresses"
    assert expand("memory://addresses/*") == sorted(f"{root}/{name}" for name in NAMES)
    twice = ["memory://addresses/a.txt", f"{root}/*.txt", "memory://addresses/**/*.txt"]
    assert expand(twice) == [f"{root}/a.txt", f"{root}/more/b[1].txt"]
    assert expand(f"{root}/more/b[1].txt") == [f"{root}/more/b[1].txt"]
    assert file_size(f"{root}/a.txt") == len(contents["a.txt"])
    for name in NAMES:
        assert list(read_document_lines(f"{root}/{name}", start=2)) == ITEMS[2:], name
    for pattern in (f"{root}/none.txt", f"{root}/none*.txt"):
        with pytest.raises(InputError, match="memory:///addresses/none.*txt does not exist"):
            expand(pattern)
    for read in (file_size, lambda name: list(read_document_lines(name))):
        with pytest.raises(InputError, match="none.txt does not exist"):
            read(f"{root}/none.txt")
    with pytest.raises(InputError, match="more is a directory"):
        expand(f"{root}/more")


def test_a_file_in_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b.txt", "x\ny")
    address = f"zip://b.txt::{tmp_path}/a.zip"
    assert expand(address) == [address]
    assert list(iterate_lines(address)) == ["x", "y", ""]


def test_addresses_of_local_files(tmp_path):
    write(tmp_path / "a.txt", "x")
    assert expand(f"file://{tmp_path}/*.txt") == [f"file://{tmp_path}/a.txt"]
    assert list(iterate_lines(f"file://{tmp_path}/a.txt")) == ["x", ""]


@pytest.fixture
def faulty(contents, monkeypatch):
    fsspec.register_implementation("faulty", Faulty, clobber=True)
    files = {f"bucket/{name}": content for name, content in contents.items()}
    monkeypatch.setattr(Faulty, "files", files)
    monkeypatch.setattr(Faulty, "calls", 0)
    delays = []
    monkeypatch.setattr(remote.time, "sleep", delays.append)
    return delays


HIDDEN = FileNotFoundError("a.txt")  # fsspec reports a lost connection of HTTP so
HIDDEN.__cause__ = TimeoutError("no answer")


@pytest.mark.parametrize("error", [OSError("reset"), TimeoutError(), KeyError("lost"), HIDDEN])
def test_faults_of_stores_change_no_line(faulty, caplog, monkeypatch, error):
    monkeypatch.setattr(Faulty, "error", error)
    assert len(expand("faulty://bucket/*")) == len(NAMES)
    for name in NAMES:
        assert file_size(f"faulty://bucket/{name}") > 0
        assert list(read_document_lines(f"faulty://bucket/{name}")) == ITEMS, name
    assert 0.5 in faulty
    assert len(caplog.records) == len(faulty)
    assert "a.txt cannot be read: " in caplog.text


def test_faults_of_streams_change_no_line(faulty, monkeypatch):
    """A stream cannot seek, so it is read again from its beginning."""
    monkeypatch.setattr(FaultyFile, "seeks", False)
    monkeypatch.setattr(Faulty, "every", 23)
    for name in NAMES[:3]:
        assert list(read_document_lines(f"faulty://bucket/{name}")) == ITEMS, name
    assert faulty


def test_the_last_try_names_the_address_and_the_reason(faulty, monkeypatch):
    monkeypatch.setattr(Faulty, "every", 1)
    message = "faulty://bucket/a.txt cannot be read after 5 tries: connection reset"
    with pytest.raises(InputError, match=message):
        list(read_document_lines("faulty://bucket/a.txt"))
    assert faulty == [0.5, 1, 2, 4]
    for read in (expand, file_size):
        with pytest.raises(InputError, match=message):
            read("faulty://bucket/a.txt")


def test_a_fault_in_the_middle(faulty, contents, monkeypatch):
    """Every reader passes the error of the last try on."""

    def fail_late(cls):
        cls.calls += 1
        if cls.calls > 8:
            raise cls.error

    monkeypatch.setattr(Faulty, "call", classmethod(fail_late))
    for name in NAMES:
        monkeypatch.setattr(Faulty, "calls", 0)
        with pytest.raises(InputError, match="after 5 tries: connection reset"):
            list(read_document_lines(f"faulty://bucket/{name}"))


def test_short_files_and_denied_access(faulty, monkeypatch):
    monkeypatch.setattr(Faulty, "every", 10**6)
    info = Faulty.info
    monkeypatch.setattr(Faulty, "info", lambda self, path: {**info(self, path), "size": 1000})
    with pytest.raises(InputError, match="the store sent 50 of 1000 bytes"):
        list(read_document_lines("faulty://bucket/a.txt"))
    monkeypatch.setattr(Faulty, "every", 1)
    monkeypatch.setattr(Faulty, "error", PermissionError("Forbidden"))
    faulty.clear()
    with pytest.raises(InputError, match="bucket/a.txt cannot be read: Forbidden"):
        expand("faulty://bucket/a.txt")
    assert not faulty
