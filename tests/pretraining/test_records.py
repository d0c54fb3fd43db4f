import contextlib
import gzip
import json
import os
import re
import resource
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import fsspec
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.cli import main
from keras_bert.errors import InputError, StorageError, UnreadableFileError
from keras_bert.pretraining.data import tokenization
from keras_bert.pretraining.data.mapped_tokens import MappedFile, MappedTokens
from keras_bert.pretraining.data.runners import RUNNERS
from keras_bert.pretraining.data.sentence_pairs import next_sentence_index, sentence_order_index
from keras_bert.pretraining.data.sources import open_source
from keras_bert.pretraining.data.tokenization import plan_tasks, tokenize
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.trainer import pretrain
from keras_bert.text.wordpiece.tokenizer import WordPiece
from tests.marks import others_swept
from tests.pretraining.run import config, weights
from tests.pretraining.text import open_corpus

WORDS = ("sun", "suns", "moon.", "sea", "tree", "birds", "rises!", "sings", "falls", "xyz")
SHARD = 1500  # bytes of text, which cuts documents and makes a dozen shards


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    return WordPiece(vocabulary)


@pytest.fixture(scope="module")
def text(tmp_path_factory, vocabulary):
    """Files with what is hard: long lines, lines without tokens, documents without any."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("text")
    for number in range(3):
        lines = []
        for _ in range(60):
            words = rng.choice(WORDS, rng.integers(1, 40))
            lines.append(rng.choice(["", "\n\n\u200b", "\u200b\n"], p=[0.8, 0.1, 0.1]))
            lines.append(" ".join(words))
            lines.extend([""] * (rng.random() < 0.15))
        (folder / f"{number}.txt").write_text("\n".join(lines))
    vocabulary.save(folder / "vocab.txt")
    return folder


@pytest.fixture(scope="module")
def records(text, tokenizer, tmp_path_factory):
    output = tmp_path_factory.mktemp("records") / "all"
    manifest = tokenize(
        f"{text}/?.txt", tokenizer, output, workers=1, shard_size=SHARD, progress=False
    )
    return output, manifest


@pytest.mark.parametrize("unit", [6, 64])
def test_the_same_corpus_as_of_the_text(text, records, tokenizer, unit):
    output, manifest = records
    raw = open_corpus([f"{text}/?.txt"], tokenizer, max_sentence_tokens=unit)
    mapped = open_corpus([str(output)], tokenizer, max_sentence_tokens=unit)
    assert len(manifest["shards"]) > 10
    assert len(mapped.tokens) == len(raw.tokens) == manifest["tokens"]
    assert raw.num_documents == manifest["documents"]
    for name in ("tokens", "sentence_splits", "document_splits", "is_continuation"):
        np.testing.assert_array_equal(np.asarray(getattr(mapped, name)), getattr(raw, name))
    assert np.asarray(mapped.tokens).dtype == np.int32


RUNS = {
    "packed, every second document held out": {
        **{"objective": "mlm", "packed": True},
        "validation_ratio": 0.5,
    },
    "pairs, the ends of documents held out": {},
    "across documents": {"family": "roberta"},
}


@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
def test_the_same_examples_as_of_the_text(text, records, tmp_path, options):
    run = config(text, tmp_path, corpus=[f"{text}/?.txt"], **options)
    of_text, text_held_out = make_examples(run, make_preprocessor(run))
    run = config(text, tmp_path, corpus=[str(records[0])], **options)
    of_records, records_held_out = make_examples(run, make_preprocessor(run))
    for raw, mapped in ((of_text, of_records), (text_held_out, records_held_out)):
        batches = zip(raw.dataset(8, epoch=1), mapped.dataset(8, epoch=1), strict=True)
        for ours, theirs in batches:
            tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)
    assert of_text.checksum != records_held_out.corpus.checksum


def test_the_files_are_read_where_they_are_looked_at(records, tokenizer):
    """Neither the corpus nor its held-out part is an array; the graph knows names of files."""
    corpus = open_corpus([str(records[0])], tokenizer)
    for part in corpus.split(0.3):
        assert not isinstance(part.tokens, np.ndarray)
    graph = tf.function(corpus.tokens.gather).get_concrete_function(tf.range(3, dtype=tf.int64))
    files = [n for n in graph.graph.as_graph_def().node if n.op == "ImmutableConst"]
    assert len(files) == len(records[1]["shards"])
    assert graph.graph.as_graph_def().ByteSize() < 100_000


def test_pairs_do_not_copy_all_tokens(tokenizer, tmp_path, monkeypatch):
    """Only those are looked at that stand in units without a second one."""
    documents = ["sun rises!\n" * length for length in range(1, 40)]
    (tmp_path / "text.txt").write_text("\n".join(documents))
    tokenize(tmp_path / "text.txt", tokenizer, tmp_path / "records", workers=1, progress=False)
    corpus, read = open_corpus([str(tmp_path / "records")], tokenizer), []
    look = MappedTokens.__getitem__
    monkeypatch.setattr(
        MappedTokens, "__getitem__", lambda self, index: read.append(index) or look(self, index)
    )
    for index in (next_sentence_index, sentence_order_index):
        index(corpus, 40)
    assert 0 < max(index.size for index in read) < len(corpus.tokens) / 2


def test_one_span_that_begins_later(records, tokenizer):
    tokens = open_corpus([str(records[0])], tokenizer).tokens
    expected = np.asarray(tokens)[300:500]
    later = tokens.take(np.array([300]), np.array([500]))
    np.testing.assert_array_equal(np.asarray(later), expected)
    np.testing.assert_array_equal(later.gather(tf.range(200, dtype=tf.int64)), expected)
    np.testing.assert_array_equal(later.take(np.array([9]), np.array([40])), expected[9:40])


def test_interrupted_and_given_again(text, records, tokenizer, tmp_path, monkeypatch):
    write, made = tokenization.write_shard, []

    def write_five(path, *arguments):
        if len(made) == 5:
            raise KeyboardInterrupt
        made.append(path)
        return write(path, *arguments)

    arguments = (f"{text}/?.txt", tokenizer, tmp_path / "out")
    options = {"workers": 1, "shard_size": SHARD, "progress": False}
    monkeypatch.setattr(tokenization, "write_shard", write_five)
    with pytest.raises(KeyboardInterrupt):
        tokenize(*arguments, **options)
    with pytest.raises(InputError, match="is not finished.*command again"):
        open_corpus([str(tmp_path / "out")], tokenizer)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("shard-*")}
    assert len(before) == 5
    monkeypatch.setattr(tokenization, "write_shard", write)
    manifest = tokenize(*arguments, **options)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert manifest == records[1]
    for path in records[0].iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    assert tokenize(*arguments, **options) == manifest  # it is complete


def test_progress_in_bytes_documents_and_tokens(text, records, tokenizer, tmp_path, capsys):
    corpus, size = f"{text}/?.txt", sum(path.stat().st_size for path in text.glob("?.txt"))
    tokenize(corpus, tokenizer, tmp_path / "out", workers=1, shard_size=SHARD)
    shown = capsys.readouterr().err.rpartition("\r")[2].strip()
    found = re.fullmatch(
        r"100%\|.*\| ([\d.]+)k/\1k \[\d\d:\d\d<00:00, .*B/s, "
        r"([\d,]+) documents/s, ([\d,]+) tokens/s\]",
        shown,
    )
    assert found, shown
    assert float(found[1]) == pytest.approx(size / 1000, abs=0.1)


@pytest.mark.slow
def test_several_processes_make_the_same(text, records, tokenizer, tmp_path):
    corpus = f"{text}/?.txt"
    tokenize(corpus, tokenizer, tmp_path / "o", workers=2, shard_size=SHARD, progress=False)
    assert_same_files(tmp_path / "o", records[0])


def assert_same_files(directory, expected):
    assert {path.name for path in directory.iterdir()} == {p.name for p in expected.iterdir()}
    for path in expected.iterdir():
        assert (directory / path.name).read_bytes() == path.read_bytes(), path.name


def fail_or_sleep(tokenizer, seconds):
    if not seconds:
        raise InputError("no sleep")
    time.sleep(seconds)


@pytest.mark.slow
def test_an_error_ends_the_other_processes_at_once(tokenizer):
    start = time.monotonic()
    with pytest.raises(InputError, match="no sleep"):
        [*RUNNERS["local"](fail_or_sleep, tokenizer, [(900,), (0,)], 2)]
    assert time.monotonic() - start < 300


@pytest.mark.slow
def test_a_ray_worker_is_killed_and_the_records_are_the_same(text, records, tokenizer, tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    output = tmp_path / "o"
    options = {"runner": "ray", "shard_size": SHARD, "progress": False}
    killed = []

    def kill_the_first_worker():
        while not killed:
            for pid in processes_named("ray::_run"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    break
            time.sleep(0.05)

    try:
        killer = threading.Thread(target=kill_the_first_worker)
        killer.start()
        tokenize(f"{text}/?.txt", tokenizer, output, **options)
        killer.join()
        assert_same_files(output, records[0])
        (tmp_path / "bad.jsonl").write_text('{"text": "sun"}\n{"body": "moon"}\n')
        with pytest.raises(InputError, match=r"^\S+bad.jsonl, line 2 has no field 'text'"):
            tokenize(tmp_path / "bad.jsonl", tokenizer, tmp_path / "bad", **options)
    finally:
        ray.shutdown()


def test_ray_that_is_missing_or_does_not_answer(text, tokenizer, tmp_path, monkeypatch):
    arguments = (f"{text}/?.txt", tokenizer, tmp_path / "o")
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # no cluster has written its address here
    with pytest.raises(InputError, match="The Ray cluster 'auto' cannot be used: Could not"):
        tokenize(*arguments, runner="ray", progress=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"The runner ray needs ray .*\[ray\]"):
        tokenize(*arguments, runner="ray", progress=False)


def processes_named(name):
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(name.encode()):
                yield int(path.parent.name)


def test_a_directory_of_an_earlier_version_is_not_continued(records, text, tokenizer, tmp_path):
    shutil.copytree(records[0], tmp_path / "out")
    path = tmp_path / "out" / "source.json"
    path.write_text(path.read_text().replace('"layout": 2,\n ', ""))
    assert "layout" not in path.read_text()
    with pytest.raises(InputError, match="begun with another division of the text into shards"):
        tokenize(f"{text}/?.txt", tokenizer, tmp_path / "out", shard_size=SHARD)
    with pytest.raises(InputError, match="runner is 'beam', but must be one of local, ray"):
        tokenize(f"{text}/?.txt", tokenizer, tmp_path / "out", runner="beam")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_tasks_have_every_line_once_in_order(text, tokenizer, tmp_path, pack):
    """Compressed files are not divided."""
    names = [tmp_path / f"{number}.txt" for number in range(9)]
    for number, name in enumerate(names):
        content = (text / f"{number % 3}.txt").read_bytes()
        name.write_bytes(pack(content[: len(content) if number < 3 else 300 * number]))
    files = [(str(name), name.stat().st_size) for name in names]
    tasks = plan_tasks(files, SHARD)
    parts = [part for task in tasks for part in task]
    assert sum(part.size for part in parts) == sum(size for _, size in files)
    assert [*dict.fromkeys(part.address for part in parts)] == [*map(str, names)]
    assert (len(parts) == len(files)) == (pack is gzip.compress)
    if pack is bytes:
        assert 2 * SHARD > max(sum(part.size for part in task) for task in tasks) > SHARD
    assert any(len(task) > 1 for task in tasks)
    unknown = plan_tasks([(name, 0) for name, _ in files], SHARD)
    assert [len(task) for task in unknown] == [1] * len(files)


def test_shards_without_tokens_make_no_block(tokenizer, tmp_path):
    """Most of a file is blank."""
    (tmp_path / "a.txt").write_text("sun rises\n" + "\n" * 300 + "moon falls\n" * 9)
    options = {"workers": 1, "shard_size": 40, "progress": False}
    manifest = tokenize(tmp_path / "a.txt", tokenizer, tmp_path / "out", **options)
    assert 0 in [shard["tokens"] for shard in manifest["shards"]]
    source = open_source([tmp_path / "out"], tokenizer, block_tokens=8)
    blocks = [*source.blocks(0)]
    assert len(blocks) > 1
    assert sum(len(block.corpus.tokens) for block in blocks) == manifest["tokens"]


def test_what_does_not_belong_to_a_directory_is_refused(text, vocabulary, tokenizer, tmp_path):
    file, output = tmp_path / "a.txt", tmp_path / "out"
    options = {"workers": 1, "progress": False}
    file.write_text("sun rises\n\nmoon falls\n")
    tokenize(file, tokenizer, output, **options)

    def again(match, tokenizer=tokenizer, **changes):
        with pytest.raises(InputError, match=match):
            tokenize(file, tokenizer, output, **options | changes)

    again("other options of the tokenizer", WordPiece(vocabulary, lowercase=False))
    again("another size of the shards", shard_size=7)
    file.write_text("sun rises\n\nmoon falls!\n")
    again("other text files, or of other sizes")
    file.write_text("sun rises\n\nbird falls\n")
    (output / "manifest.json").unlink()
    again("text has changed since .*shard-00000")
    with pytest.raises(InputError, match="was not made by keras-bert tokenize"):
        tokenize(file, tokenizer, text, **options)
    file.write_text("\u200b\n")
    with pytest.raises(InputError, match="no tokens"):
        tokenize(file, tokenizer, tmp_path / "empty", **options)


def test_records_of_json_lines_have_the_tokens_of_the_text(text, tokenizer, tmp_path):
    """The text stands in another field, and the file in a store."""
    documents = (text / "0.txt").read_text().split("\n\n")
    rows = "".join(json.dumps({"text": "sun", "body": document}) + "\n" for document in documents)
    fsspec.filesystem("memory").pipe("/records/a.jsonl.gz", gzip.compress(rows.encode()))
    corpus, output, options = "memory:///records/*.gz", tmp_path / "out", {"workers": 1}
    manifest = tokenize(corpus, tokenizer, output, text_field="body", **options)
    of_text = tokenize(text / "0.txt", tokenizer, tmp_path / "text", **options)
    assert manifest["shards"] == of_text["shards"]
    raw = open_corpus([corpus], tokenizer, text_field="body")
    np.testing.assert_array_equal(raw.tokens, open_corpus([str(output)], tokenizer).tokens)
    run = config(text, tmp_path / "run", corpus=[corpus], text_field="body")
    stream, _ = make_examples(run, make_preprocessor(run))
    assert stream.examples.corpus.num_documents > 1
    with pytest.raises(InputError, match="out was begun with another text field than now"):
        tokenize(corpus, tokenizer, output, **options)


def test_a_directory_without_a_text_field_was_begun_with_text(records, text, tokenizer, tmp_path):
    shutil.copytree(records[0], tmp_path / "out")
    path = tmp_path / "out" / "source.json"
    path.write_text(path.read_text().replace(',\n "text_field": "text"', ""))
    assert "text_field" not in path.read_text()
    arguments = (f"{text}/?.txt", tokenizer, tmp_path / "out")
    assert tokenize(*arguments, shard_size=SHARD) == records[1]
    with pytest.raises(InputError, match="another text field"):
        tokenize(*arguments, shard_size=SHARD, text_field="body")


def test_the_text_field_of_commands(tmp_path, capsys):
    rows = "".join(json.dumps({"body": "sun rises\nmoon falls"}) + "\n" for _ in range(3))
    (tmp_path / "a.jsonl").write_text(rows)
    corpus, vocabulary = str(tmp_path / "a.jsonl"), str(tmp_path / "vocab.txt")
    field = ["--text-field", "body"]
    assert main(["vocab", corpus, *field, "--size", "40", "--output", vocabulary]) == 0
    for kind, size in {"byte_pair": "300", "sentencepiece": "20"}.items():
        output = ["--output", str(tmp_path / kind)]
        assert main(["vocab", corpus, *field, "--kind", kind, "--size", size, *output]) == 0
    options = ["--vocabulary", vocabulary, "--output", str(tmp_path / "out"), "--workers", "1"]
    assert main(["tokenize", corpus, *options]) == 2
    assert "line 1 has no field 'text'. It has 'body'" in capsys.readouterr().err
    assert main(["tokenize", corpus, *options, *field]) == 0
    assert "3 documents, 6 lines" in capsys.readouterr().out


@pytest.mark.parametrize("workers", others_swept([1, 2]))
def test_unreadable_files_are_left_out(text, tokenizer, tmp_path, caplog, capsys, workers):
    """The records are those of the same files without what cannot be read."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
        shutil.copy(text / "0.txt", folder / "a.txt")
        shutil.copy(text / "2.txt", folder / "d.txt")
    lines = (text / "1.txt").read_bytes().split(b"\n")
    half = len(lines) // 2
    (whole / "b.txt").write_bytes(b"\n".join([*lines[:half], b"sea \xff", *lines[half:]]))
    (cut / "b.txt").write_bytes(b"\n".join(lines[:half]))
    (whole / "c.txt").write_bytes(gzip.compress(b"moon")[:9])
    options = {"workers": workers, "progress": False}
    expected = tokenize(f"{cut}/*.txt", tokenizer, tmp_path / "of_cut", **options)
    assert expected["unreadable_files"] == {}
    output = tmp_path / "out"
    with pytest.raises(UnreadableFileError, match=f"b.txt, line {half + 1}: byte 0xff"):
        tokenize(f"{whole}/*.txt", tokenizer, output, **options)
    options["unreadable_files"] = "skip"
    manifest = tokenize(f"{whole}/*.txt", tokenizer, output, **options)  # continues
    for name in ("shards", "documents", "lines", "tokens"):
        assert manifest[name] == expected[name]
    assert [*manifest["unreadable_files"]] == [f"{whole}/b.txt", f"{whole}/c.txt"]
    for name, error in manifest["unreadable_files"].items():
        assert f"Leaving out text of {name}. {error}" in caplog.text
    for shard in expected["shards"]:
        ours, cuts = (folder / shard["name"] for folder in (output, tmp_path / "of_cut"))
        assert ours.read_bytes() == cuts.read_bytes()
    command = ["tokenize", f"{whole}/*.txt", "--vocabulary", str(text / "vocab.txt")]
    command += ["--output", str(output), "--unreadable-files", "skip"]
    assert main(command) == 0  # it is complete
    assert capsys.readouterr().out.endswith("tokens in 1 files; 2 unreadable text files\n")


def test_a_part_of_a_file_is_left_out(text, tokenizer, tmp_path):
    """A worker that reads another part of the same file reports nothing."""
    lines = (text / "0.txt").read_bytes().split(b"\n")
    lines[len(lines) // 2] = b"\xff"
    (tmp_path / "a.txt").write_bytes(b"\n".join(lines))
    options = {"workers": 1, "progress": False, "unreadable_files": "skip"}
    options |= {"shard_size": SHARD}
    manifest = tokenize(tmp_path / "a.txt", tokenizer, tmp_path / "out", **options)
    whole = tokenize(text / "0.txt", tokenizer, tmp_path / "whole", **options)
    assert len(manifest["unreadable_files"]) == 1
    assert 0.5 < manifest["tokens"] / whole["tokens"] < 1
    assert manifest["shards"][-1] == whole["shards"][-1]


def test_a_corpus_without_a_readable_file_is_refused(tokenizer, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff")
    options = {"progress": False, "unreadable_files": "skip"}
    with pytest.raises(InputError, match="None of the 1 text files can be read. .*a.txt, line 1"):
        tokenize(tmp_path / "a.txt", tokenizer, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    options["unreadable_files"] = "ignore"
    with pytest.raises(InputError, match="unreadable_files is 'ignore', but must be stop or skip"):
        tokenize(tmp_path / "a.txt", tokenizer, tmp_path / "out", **options)


def test_what_a_run_cannot_use_is_refused(records, vocabulary, tokenizer, tmp_path):
    names = [str(records[0])]
    with pytest.raises(InputError, match="another options than this run's"):
        open_corpus(names, WordPiece(vocabulary, lowercase=False))
    with pytest.raises(
        InputError, match="only directories that keras-bert tokenize wrote, or only text"
    ):
        open_corpus([*names, "a.txt"], tokenizer)
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in records[0].iterdir():
        (damaged / path.name).write_bytes(
            path.read_bytes()[:-4] if "00003" in path.name else path.read_bytes()
        )
    with pytest.raises(InputError, match="shard-00003-000.safetensors is missing or damaged"):
        open_corpus([str(damaged)], tokenizer)


def altered(records, directory, vector, change):
    """A copy of the records in which a number in the third shard is another."""
    shutil.copytree(records[0], directory)
    path = directory / "shard-00003-000.safetensors"
    place = MappedFile(path).ends[vector][0]
    numbers = np.memmap(path, "<i4", mode="r+")
    numbers[place] = change(numbers[place])
    numbers.flush()
    return str(directory)


@pytest.mark.parametrize(("token", "shown"), [(lambda _: 99, "99"), (lambda _: -3, "-3")])
def test_ids_that_the_vocabulary_lacks_are_refused(records, tokenizer, tmp_path, token, shown):
    names = [altered(records, tmp_path / "records", "tokens", token)]
    message = (
        f"shard-00003-000.safetensors holds the token id {shown}, but the vocabulary has the ids"
    )
    with pytest.raises(InputError, match=message):
        open_corpus(names, tokenizer)


@pytest.mark.parametrize("vector", ["lengths", "breaks"])
def test_altered_lines_are_refused(records, tokenizer, tmp_path, vector):
    names = [altered(records, tmp_path / "records", vector, lambda number: number + 1)]
    with pytest.raises(InputError, match="shard-00003-000.safetensors is missing or damaged"):
        open_corpus(names, tokenizer)


def test_a_damaged_header_is_refused(records, tokenizer, tmp_path):
    shutil.copytree(records[0], tmp_path / "records")
    path = tmp_path / "records" / "shard-00003-000.safetensors"
    path.write_bytes(path.read_bytes().replace(b"lengths", b"l\xffngths", 1))
    with pytest.raises(InputError, match="shard-00003-000.safetensors is missing or damaged"):
        open_corpus([str(tmp_path / "records")], tokenizer)


@pytest.mark.parametrize("manifest", ["{}", '{"tokenizer": {}, "shards": [1]}', "[1"])
def test_a_damaged_manifest_is_refused(records, tokenizer, tmp_path, manifest):
    shutil.copytree(records[0], tmp_path / "records")
    (tmp_path / "records" / "manifest.json").write_text(manifest)
    with pytest.raises(InputError, match="manifest.json is "):
        open_corpus([str(tmp_path / "records")], tokenizer)


ALTERED = {
    "training text": {"validation_ratio": 0.5},
    "held-out text": {"validation_ratio": 0.1},
    "text in memory": {"family": "roberta", "validation_ratio": 0},
}


@pytest.mark.parametrize("options", ALTERED.values(), ids=ALTERED)
def test_altered_ids_end_the_run_before_it_writes(text, records, tmp_path, options):
    """Another id of the vocabulary: nothing but the checksum tells."""
    corpus = [altered(records, tmp_path / "records", "tokens", lambda token: 5 + (token == 5))]
    run = config(text, tmp_path / "run", corpus=corpus, steps=2, **options)
    with pytest.raises(
        InputError, match="shard-00003-000.safetensors is missing or damaged; delete"
    ):
        pretrain(run, progress=False)
    assert not (tmp_path / "run" / "model").exists()
    assert not list((tmp_path / "run").glob("checkpoints/*"))


def test_records_in_a_store_are_the_records_on_disk(text, records, tokenizer, tmp_path):
    store = fsspec.filesystem("memory")
    store.put(f"{records[0]}/*", "/bucket/records/")
    run = config(text, tmp_path / "run", corpus=["memory:///bucket/records"], steps=3)
    pretrain(run, progress=False)
    run = config(text, tmp_path / "local", corpus=[str(records[0])], steps=3)
    pretrain(run, progress=False)
    ours, theirs = weights(tmp_path / "run"), weights(tmp_path / "local")
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    path = "/bucket/records/shard-00003-000.safetensors"
    store.pipe(path, store.cat(path)[:-4] + b"\0\0\0\0")
    with pytest.raises(
        InputError, match=r"memory:///bucket/.*00003-000.safetensors is missing or dam"
    ):
        open_corpus(["memory:///bucket/records"], tokenizer)
    store.rm(path)
    with pytest.raises(
        InputError, match=r"memory:///bucket/.*00003-000.safetensors is missing or dam"
    ):
        open_corpus(["memory:///bucket/records"], tokenizer)
    store.rm("/bucket/records/manifest.json")
    with pytest.raises(InputError, match="is not finished"):
        open_corpus(["memory:///bucket/records"], tokenizer)


def test_a_full_disk_is_one_sentence(text, tokenizer, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # Python ignores its signal
    try:
        with pytest.raises(StorageError, match="Cannot write .*shard-0000.*File too large"):
            tokenize(f"{text}/?.txt", tokenizer, tmp_path / "o", workers=1, progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["source.json"]


def test_command(text, tmp_path, capsys):
    arguments = ["tokenize", f"{text}/?.txt", "--vocabulary", str(text / "vocab.txt")]
    assert main([*arguments, "--output", str(tmp_path / "out"), "--workers", "1"]) == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert f"{manifest['tokens']} tokens in 1 files" in capsys.readouterr().out
    assert main([*arguments, "--output", str(text)]) == 2
    assert "choose another output" in capsys.readouterr().err
