"""A corpus that is larger than the memory for it is read in blocks."""

import dataclasses
import itertools
import json
import random
import shutil
import signal
import threading
from collections import Counter
from pathlib import Path
from unittest import mock

import datasets
import fsspec
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.pretraining.data import sources
from keras_bert.pretraining.data.mapped_tokens import MappedFile
from keras_bert.pretraining.data.sources import BEGIN, Block, BlockStart, open_source
from keras_bert.pretraining.data.stream import ExampleStream, Place, index_block
from keras_bert.pretraining.data.tokenization import tokenize
from keras_bert.pretraining.training import inputs
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.trainer import pretrain
from keras_bert.text import remote
from keras_bert.text.wordpiece.tokenizer import WordPiece
from tests.marks import others_swept
from tests.pretraining import processes
from tests.pretraining.run import EXACT, SMALL, assert_same_run, config, log, weights
from tests.pretraining.text import VOCABULARY, open_corpus
from tests.text.faulty_store import Faulty, FaultyFile

BLOCK = 400
"""Tokens in a block: the corpora below have 5 to 8 blocks."""
MEMORY = BLOCK * inputs.BYTES_PER_TOKEN / inputs.GIGABYTE


@pytest.fixture(scope="module")
def tokenizer():
    return WordPiece(VOCABULARY)


@pytest.fixture(scope="module")
def corpora(text_files, tokenizer, tmp_path_factory):
    """The same text as one file, as several files, and as records of many shards."""
    folder = tmp_path_factory.mktemp("corpora")
    documents = (text_files / "corpus.txt").read_text().split("\n\n")
    for number in range(4):
        (folder / f"{number}.txt").write_text("\n\n".join(documents[10 * number :][:10]) + "\n")
    files = [str(folder / f"{number}.txt") for number in range(4)]
    records = folder / "records"
    tokenize(files, tokenizer, records, workers=1, shard_size=500, progress=False)
    return {"text": files, "one file": [str(text_files / "corpus.txt")], "records": [str(records)]}


def blocks_of(names, tokenizer, epoch=0, start=BEGIN, block_tokens=BLOCK):
    return [*open_source(names, tokenizer, block_tokens=block_tokens).blocks(epoch, start)]


@pytest.mark.parametrize("kind", ["text", "one file", "records"])
def test_blocks_are_parts_of_the_text(corpora, tokenizer, kind):
    whole = open_corpus(corpora[kind], tokenizer)
    blocks = blocks_of(corpora[kind], tokenizer)
    assert len(blocks) >= 5
    assert [block.start.block for block in blocks] == [*range(len(blocks))]
    parts = [np.asarray(block.corpus.tokens) for block in blocks]
    assert max(map(len, parts)) < 2 * BLOCK
    if kind == "records":  # in a random order
        lines = Counter(line for block in blocks for line in lines_of(block.corpus))
        assert lines == Counter(lines_of(whole))
    else:
        np.testing.assert_array_equal(np.concatenate(parts), whole.tokens)
        assert sum(block.corpus.num_sentences for block in blocks) == whole.num_sentences
    for number, block in enumerate(blocks[:-1]):
        later = blocks_of(corpora[kind], tokenizer, start=block.next_start)
        for one, other in zip(later, blocks[number + 1 :], strict=True):
            assert one.start == other.start
            np.testing.assert_array_equal(one.corpus.tokens, other.corpus.tokens)
    assert blocks[-1].next_start is None


def lines_of(corpus):
    splits = corpus.sentence_splits
    tokens = np.asarray(corpus.tokens)
    return [tokens[a:b].tobytes() for a, b in itertools.pairwise(splits)]


@pytest.mark.parametrize("kind", ["text", "records"])
def test_later_epochs_read_in_another_order(corpora, tokenizer, kind):
    def order(epoch):
        blocks = blocks_of(corpora[kind], tokenizer, epoch)
        return tuple(block.corpus.tokens[np.arange(9)].tobytes() for block in blocks)

    assert len({order(epoch) for epoch in range(3)}) == 3
    assert order(2) == order(2)


def test_records_that_are_not_neighbors_do_not_share_a_document(tmp_path, tokenizer):
    """Every line is a shard, and all lines are one document."""
    lines = [f"sun {word} moon." for word in ("rises", "falls", "sings", "sleeps") * 8]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    options = {"workers": 1, "shard_size": 1, "progress": False}
    tokenize(tmp_path / "text.txt", tokenizer, tmp_path / "records", **options)
    source = open_source([tmp_path / "records"], tokenizer, block_tokens=16)
    counts = {block.corpus.num_documents for block in source.blocks(0, BEGIN)}
    assert max(counts) > 1  # of four shards, some are not neighbors
    assert open_corpus([tmp_path / "records"], tokenizer).num_documents == 1


def test_held_out_documents_do_not_depend_on_the_block(corpora, tokenizer):
    whole = open_corpus(corpora["text"], tokenizer)
    _, held_out = whole.split_by_content(0.3)
    assert 0.1 < held_out.num_documents / whole.num_documents < 0.5
    # Blocks that end with documents, so that no document is cut.
    parts = [open_corpus([name], tokenizer).split_by_content(0.3) for name in corpora["text"]]
    found = Counter(line for _, part in parts for line in lines_of(part))
    assert found == Counter(lines_of(held_out))
    kept = Counter(line for part, _ in parts for line in lines_of(part))
    assert kept + found == Counter(lines_of(whole))


def test_the_ratio_of_documents_to_hold_out_is_kept(tmp_path, tokenizer):
    rng = np.random.default_rng(0)
    words = ["sun", "moon", "sea", "wind", "tree", "bird"]
    documents = [" ".join(rng.choice(words, rng.integers(20, 40))) for _ in range(4000)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    _, held_out = open_corpus([tmp_path / "text.txt"], tokenizer).split_by_content(0.1)
    assert held_out.num_documents / 4000 == pytest.approx(0.1, abs=0.02)


RUNS = {"mlm": {"objective": "mlm"}, "packed": {"objective": "mlm", "packed": True}, "pairs": {}}


def stream_of(text_files, corpora, kind, tmp_path, **options):
    defaults = {"corpus": corpora[kind], "memory": MEMORY, "validation_ratio": 0}
    run = config(text_files, tmp_path / "run", **defaults | options)
    return make_examples(run, make_preprocessor(run))[0]


def batches(block, start=0):
    rows = [tf.nest.map_structure(np.array, b) for b in block.dataset(4, start=start)]
    return [x["token_ids"] for x, *_ in rows], [x["masked_positions"] for x, *_ in rows]


def assert_same_batches(block, expected):
    for values, others in zip(batches(block), expected, strict=True):
        np.testing.assert_array_equal(np.concatenate(values), np.concatenate(others))


@pytest.mark.parametrize(
    ("kind", "options"),
    others_swept(
        itertools.product(["text", "records"], RUNS), {("text", "mlm"), ("records", "pairs")}
    ),
)
def test_a_stream_continues_at_any_block(text_files, corpora, tmp_path, kind, options):
    stream = stream_of(text_files, corpora, kind, tmp_path, **RUNS[options])
    taken, blocks = [], stream.blocks(Place())
    for block in blocks:
        taken.append((block, *batches(block)) if random.random() < 0.4 else (block,))
        if block.place.epoch == 2:
            break
    blocks.close()
    epochs = [block.place.epoch for block, *_ in taken]
    assert epochs.count(0) == epochs.count(1) >= 5
    number = 0
    for block, *_ in taken:
        number = number if block.place.block else 0
        assert block.place.first_number == number
        number += len(block)
    for (before, *_), (after, *_) in itertools.pairwise(taken):
        assert before.next_place == after.place
    for expected, *rows in random.sample([each for each in taken if len(each) > 1], 2):
        later = stream_of(text_files, corpora, kind, tmp_path, **RUNS[options])
        later = later.blocks(expected.place)
        block = next(later)
        later.close()
        assert block.place == expected.place
        assert_same_batches(block, rows)


@pytest.mark.parametrize("options", others_swept(RUNS, {"pairs"}))
def test_text_and_records_give_the_same_rows(text_files, corpora, tmp_path, options):
    """The rows of an epoch, with masks and labels, are those of the other way to read a corpus."""

    def rows(kind):
        stream = stream_of(text_files, corpora, kind, tmp_path, memory=1.0, **RUNS[options])
        counts = Counter()
        for batch in stream.dataset(8, epoch=1).as_numpy_iterator():
            columns = tf.nest.flatten(batch)
            counts.update(tuple(c[row].tobytes() for c in columns) for row in range(8))
        return counts

    expected = rows("one file")
    assert expected.total() > 40
    assert rows("text") == rows("records") == expected


def test_masks_depend_on_the_examples_number_in_its_epoch(text_files, corpora, tmp_path):
    block = next(iter(stream_of(text_files, corpora, "text", tmp_path).blocks(Place())))
    moved = dataclasses.replace(block, place=Place(first_number=10**6))
    assert not np.array_equal(batches(block)[1], batches(moved)[1])


@pytest.mark.parametrize("kind", ["text", "records"])
def test_every_token_comes_once(text_files, corpora, tokenizer, tmp_path, kind):
    stream = stream_of(text_files, corpora, kind, tmp_path, objective="mlm")
    found = Counter()
    for x, y, w in stream.dataset(8, epoch=1).as_numpy_iterator():
        tokens = x["token_ids"].copy()
        for row in range(8):
            chosen = w[row] > 0
            tokens[row, x["masked_positions"][row][chosen]] = y[row][chosen]
            if chosen.any():
                found.update(tokens[row][x["padding_mask"][row] > 0].tolist())
    for token in (VOCABULARY.cls_id, VOCABULARY.separator_id):
        del found[token]
    tokens = np.asarray(open_corpus(corpora[kind], tokenizer).tokens)
    assert found == Counter(tokens.tolist())


def test_pairs_in_blocks_are_half_random(tmp_path, text_files, tokenizer):
    rng = np.random.default_rng(1)
    words = ["sun", "moon", "sea", "wind", "tree", "bird"]
    texts = [
        "\n".join(" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(20))
        for _ in range(800)
    ]
    (tmp_path / "text.txt").write_text("\n\n".join(texts))
    corpora = {"text": [str(tmp_path / "text.txt")]}
    memory = 10_000 * inputs.BYTES_PER_TOKEN / inputs.GIGABYTE
    stream = stream_of(text_files, corpora, "text", tmp_path, memory=memory)
    labels = []
    for _, y, w in stream.dataset(64).as_numpy_iterator():
        labels += y["nsp_logits"][w["nsp_logits"] > 0].tolist()
    assert len(labels) > 3000
    assert np.mean(labels) == pytest.approx(0.5, abs=0.04)


def test_a_block_that_is_too_short_for_pairs_is_left_out(
    text_files, corpora, tokenizer, tmp_path, monkeypatch, caplog
):
    """The end of the text may be one document."""
    (tmp_path / "short.txt").write_text("sun rises.\n")
    parts = [open_corpus(names, tokenizer) for names in (corpora["text"], [tmp_path / "short.txt"])]

    blocks = [Block(BEGIN, parts[0], BlockStart(1)), Block(BlockStart(1), parts[1], None)]

    class TwoBlocks:
        checksum = 1

        def num_tokens(self):
            return None

        def blocks(self, epoch, start=BEGIN):
            yield from blocks[start.block :]

    monkeypatch.setattr(inputs, "open_source", lambda *_, **__: TwoBlocks())
    stream = stream_of(text_files, corpora, "text", tmp_path)
    read = stream.blocks(Place())
    assert [next(read).place for _ in range(3)] == [Place(), Place(epoch=1), Place(epoch=2)]
    read.close()
    assert "Leaving out 3 tokens at the end of the text. " in caplog.text
    assert "There is only one document" in caplog.text


def test_the_next_block_is_read_while_the_first_is_in_use(
    text_files, corpora, tokenizer, tmp_path, monkeypatch
):
    corpus, second_is_read = open_corpus(corpora["text"], tokenizer), threading.Event()

    class Endless:
        checksum = 1

        def num_tokens(self):
            return None

        def blocks(self, epoch, start=BEGIN):
            for number in itertools.count(start.block):
                if number:
                    second_is_read.set()
                yield Block(BlockStart(number), corpus, BlockStart(number + 1))

    monkeypatch.setattr(inputs, "open_source", lambda *_, **__: Endless())
    read = stream_of(text_files, corpora, "text", tmp_path).blocks(Place())
    assert next(read).place == Place()
    assert second_is_read.wait(60)
    read.close()


@pytest.mark.parametrize("ratio", [1e-9, 1 - 1e-9])
@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
def test_blocks_of_which_all_or_nothing_is_held_out(text_files, corpora, tmp_path, ratio, options):
    run = config(text_files, tmp_path / "run", corpus=corpora["text"], memory=MEMORY, **options)
    source = inputs.open_source(corpora["text"], WordPiece(VOCABULARY), block_tokens=BLOCK)
    make = make_examples(run, make_preprocessor(run))[0]._make_examples
    name = "training" if ratio > 0.5 else "held-out"
    with pytest.raises(kb.InputError, match=f"The {name} text is too short for an example"):
        index_block(make(ExampleStream(source, make, ratio).held_out), "held-out")


def run_of(text_files, corpora, kind, output, **options):
    defaults = {"corpus": corpora[kind], "memory": MEMORY, "batch_size": 8, "steps": 28}
    defaults |= {"validation": [str(text_files / "corpus.txt")], "evaluate_every": 14}
    return config(text_files, output, **defaults | options)


@pytest.fixture(scope="module", params=["text", "records"])
def finished(request, text_files, corpora, tmp_path_factory):
    """A run through several blocks and epochs."""
    output = tmp_path_factory.mktemp("runs") / "whole"
    return (
        request.param,
        output,
        pretrain(run_of(text_files, corpora, request.param, output), progress=False),
    )


def test_a_run_in_blocks_learns(finished, text_files, corpora):
    kind, output, results = finished
    assert results["finished"]
    assert results["after"]["mlm_loss"] < results["before"]["mlm_loss"]
    progress = json.loads((output / "checkpoints/step-00000028/progress.json").read_text())
    assert progress["epoch"] >= 1
    assert (results["examples_per_epoch"] is None) == (kind == "text")


@pytest.mark.parametrize("turn", others_swept(range(10)))
@pytest.mark.parametrize(
    "finished", others_swept(["text", "records"]), indirect=True, scope="module"
)
def test_a_run_in_blocks_is_killed_and_continued(finished, text_files, corpora, tmp_path, turn):
    kind, output, _ = finished
    run = run_of(text_files, corpora, kind, tmp_path / "run")
    fate = ("after", random.randrange(1, 28), 0, signal.SIGKILL)
    assert processes.launch(run, {0: fate}) == [processes.KILLED], fate
    assert pretrain(run, progress=False)["finished"]
    assert_same_run(tmp_path / "run", output)


@pytest.mark.slow
@pytest.mark.parametrize("workers", others_swept([2, 4]))
def test_workers_read_files_of_their_own(text_files, corpora, tmp_path, workers):
    """Each example of the first epoch comes once, although a worker dies and all start again."""
    whole = run_of(text_files, corpora, "text", tmp_path / "whole", strategy="multi_worker")
    assert processes.launch(whole, number=workers) == [0] * workers
    killed = run_of(text_files, corpora, "text", tmp_path / "run", strategy="multi_worker")
    fate = ("after", random.randrange(1, 28), 0, signal.SIGKILL)
    assert processes.launch(killed, {1: fate}, workers)[1] == processes.KILLED, fate
    assert processes.launch(killed, number=workers) == [0] * workers
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    counts = processes.seen(killed)
    assert max(counts) > 0
    assert set(counts[0].values()) == {1}
    # Blocks are cut elsewhere if one process reads all files, so compare the tokens.
    assert counts[0].total() > 100
    alone = run_of(text_files, corpora, "text", tmp_path / "run", steps=32)
    with pytest.raises(kb.InputError, match=f"begun with {workers} workers, not 1"):
        pretrain(alone, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "later"), others_swept([(2, 1), (4, 2)]))
def test_a_run_on_records_continues_with_fewer_workers(
    text_files, corpora, tmp_path, workers, later
):
    """Examples and weights are those of a run in one process to the end."""
    options = {"encoder": SMALL | EXACT, "learning_rate": 1e-3}
    whole, stopped = (
        run_of(text_files, corpora, "records", tmp_path / name, **options, strategy=strategy)
        for name, strategy in (("whole", "default"), ("stopped", "multi_worker"))
    )
    assert processes.launch(whole) == [0], processes.said(whole)
    codes = processes.launch(stopped, {workers - 1: ("after", 10, 0, signal.SIGTERM)}, workers)
    assert codes == [processes.INTERRUPTED] * workers, processes.said(stopped)
    assert processes.launch(stopped, number=later) == [0] * later, processes.said(stopped)
    counts = processes.seen(stopped)
    assert counts == processes.seen(whole)
    assert set(counts[0].values()) == {1}
    assert counts[0].total() > 100
    ours, theirs = weights(tmp_path / "stopped"), weights(tmp_path / "whole")
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], atol=1e-5, err_msg=name)


def test_text_for_more_workers_than_files_is_refused(text_files, corpora, tmp_path):
    run = run_of(text_files, corpora, "one file", tmp_path / "run")
    with pytest.raises(kb.InputError, match="1 text files for 2 workers"):
        make_examples(run, make_preprocessor(run), 0, 2)


class Together:
    """Workers in threads of one process, which exchange numbers."""

    def __init__(self, number):
        self.barrier = threading.Barrier(number)
        self.rows = [None] * number

    def of(self, index):
        def gather(numbers):
            self.rows[index] = list(numbers)
            self.barrier.wait(60)
            rows = [*self.rows]
            self.barrier.wait(60)
            return rows

        return mock.Mock(gather=gather)


def test_four_workers_read_disjoint_text(text_files, corpora, tokenizer, tmp_path):
    """Their first epochs together have every line once, and they agree on the places."""
    together, found, agreed = Together(4), [None] * 4, [None] * 4
    options = {"memory": MEMORY / 4, "objective": "mlm"}
    run = run_of(text_files, corpora, "text", tmp_path / "run", **options)

    def work(index):
        stream, _ = make_examples(run, make_preprocessor(run), index, 4)
        read, lines, own = stream.blocks(Place()), [], []
        for block in itertools.islice(read, 9):
            block = stream.synchronize(block, together.of(index))
            own.append((block.place.parts, block.next_place.parts, len(block)))
            if block.place.epoch == 0:
                lines += lines_of(block.examples.corpus)
        read.close()
        found[index], agreed[index] = Counter(lines), own

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert agreed[0] == agreed[1] == agreed[2] == agreed[3]
    assert sum(found, Counter()) == Counter(lines_of(open_corpus(corpora["text"], tokenizer)))
    files = [Counter(lines_of(open_corpus([name], tokenizer))) for name in corpora["text"]]
    assert found == files


def test_epochs_of_records_are_estimated_and_of_text_refused(text_files, corpora, tmp_path):
    options = {"steps": None, "epochs": 1.0, "objective": "mlm"}
    run = run_of(text_files, corpora, "records", tmp_path / "records", **options)
    results = pretrain(run, progress=False)
    exact = stream_of(text_files, corpora, "records", tmp_path, memory=1.0, objective="mlm")
    exact = exact.examples_per_epoch
    assert results["examples_per_epoch"] == pytest.approx(exact, rel=0.2)
    run = run_of(text_files, corpora, "text", tmp_path / "text", **options)
    with pytest.raises(kb.InputError, match=r"schedule.epochs needs the length .* data.memory"):
        pretrain(run, progress=False)


def test_changed_text_is_refused(text_files, corpora, tmp_path):
    corpora = {"text": [shutil.copy(name, tmp_path) for name in corpora["text"]]}
    pretrain(run_of(text_files, corpora, "text", tmp_path / "run", steps=1), progress=False)
    with open(corpora["text"][3], "a") as file:
        file.write("\n\nsun rises.\n")
    with pytest.raises(kb.InputError, match="text or the vocabulary has changed"):
        pretrain(run_of(text_files, corpora, "text", tmp_path / "run", steps=2), progress=False)


@pytest.fixture(params=["Dataset", "IterableDataset"])
def dataset(request, text_files, monkeypatch):
    """The documents of the corpus, in 4 parts."""
    monkeypatch.setattr(sources, "ROWS_PER_PART", 10)
    documents = (text_files / "corpus.txt").read_text().split("\n\n")
    rows = datasets.Dataset.from_dict({"body": documents, "id": range(len(documents))})
    return rows if request.param == "Dataset" else rows.to_iterable_dataset(num_shards=4)


def test_a_dataset_has_the_blocks_of_text_files(dataset, text_files, corpora, tokenizer, tmp_path):
    run = config(
        text_files, tmp_path, corpus="text", memory=MEMORY, validation_ratio=0, text_field="body"
    )
    options = {"block_tokens": BLOCK, "text_field": "body"}
    expected = [
        block for epoch in range(2) for block in blocks_of(corpora["text"], tokenizer, epoch)
    ]
    source = open_source([dataset], tokenizer, **options)
    found = [block for epoch in range(2) for block in source.blocks(epoch)]
    for block, other in zip(found, expected, strict=True):
        assert block.start == other.start
        assert lines_of(block.corpus) == lines_of(other.corpus)
    later = next(open_source([dataset], tokenizer, **options).blocks(1, found[-2].start))
    np.testing.assert_array_equal(later.corpus.tokens, found[-2].corpus.tokens)
    shards = [source.shard(index, 2) for index in range(2)]
    lines = Counter(
        x for each in shards for block in each.blocks(0) for x in lines_of(block.corpus)
    )
    assert lines == Counter(lines_of(open_corpus(corpora["text"], tokenizer)))

    stream, _ = make_examples(run, make_preprocessor(run), corpus=[dataset])
    x, _, _ = next(iter(stream.dataset(8)))
    assert x["token_ids"].shape == (8, 32)
    with pytest.raises(kb.InputError, match="There are 2 datasets, but data.corpus has 1 names"):
        make_examples(run, make_preprocessor(run), corpus=[dataset, dataset])


def test_datasets_that_cannot_be_read(dataset, corpora, tokenizer):
    with pytest.raises(kb.InputError, match="Part 1 of 4 .*, row 1 has no field 'text'. It has"):
        next(open_source([dataset], tokenizer).blocks(0))
    with pytest.raises(kb.InputError, match="has a dataset and the name .*0.txt; give only"):
        open_source([dataset, corpora["text"][0]], tokenizer)
    options = {"text_field": "body", "temperature": 2.0}
    with pytest.raises(kb.InputError, match="The size of name 2 of data.corpus is not known"):
        open_source([corpora["text"][0], dataset], tokenizer, **options)

    def rows():
        yield {"body": "sun"}
        raise OSError("No route to host")

    broken = datasets.IterableDataset.from_generator(rows)
    message = "Part 1 of 1 of the datasets cannot be read after row 1: No route to host."
    with pytest.raises(kb.InputError, match=message):
        next(open_source([broken], tokenizer, text_field="body").blocks(0))


def test_a_dataset_is_mixed_with_text(dataset, corpora, tokenizer):
    options = {"text_field": "body", "weights": [1, 1], "block_tokens": 4 * BLOCK}
    blocks = open_source([dataset, corpora["text"][0]], tokenizer, **options).blocks(0)
    tokens = [len(block.corpus.tokens) for block in itertools.islice(blocks, 2)]
    assert min(tokens) > 2 * BLOCK


@pytest.fixture(scope="module")
def damaged(corpora, tmp_path_factory):
    """The corpora with a damaged file in the middle, and each without what cannot be read."""
    folder = tmp_path_factory.mktemp("damaged")
    texts = [Path(name).read_bytes() for name in corpora["text"]]
    half = texts[1][: texts[1].index(b"\n", len(texts[1]) // 2) + 1]
    for kind, second in {"text": half + b"\xff" + texts[1], "rest of text": half}.items():
        (folder / kind).mkdir()
        for number, text in enumerate([texts[0], second, *texts[2:]]):
            (folder / kind / f"{number}.txt").write_bytes(text)
    shutil.copytree(corpora["records"][0], folder / "records")
    shard = sorted((folder / "records").glob("shard-*"))[4]
    shard.write_bytes(shard.read_bytes()[:-1] + b"\7")
    return folder, {
        "text": [f"{folder}/text/*.txt"],
        "rest of text": [f"{folder}/rest of text/*.txt"],
        "records": [f"{folder}/records"],
    }


SKIP = {"unreadable_files": "skip"}


def test_text_after_an_error_is_left_out(damaged, text_files, tokenizer, tmp_path):
    """Blocks, examples and masks are those of the text without what cannot be read."""
    corpora = damaged[1]
    streams = [
        stream_of(text_files, corpora, kind, tmp_path, **SKIP) for kind in ("text", "rest of text")
    ]
    pairs, names = zip(*(stream.blocks(Place()) for stream in streams), strict=True), []
    for block, expected in itertools.islice(pairs, 14):
        assert block.place == expected.place
        assert lines_of(block.examples.corpus) == lines_of(expected.examples.corpus)
        names += [(block.place.epoch, Path(file.address).name) for file in block.unreadable]
        assert not expected.unreadable
    assert names == [(0, "1.txt"), (1, "1.txt")]
    with pytest.raises(kb.InputError, match=r"text/1.txt, line \d+: byte 0xff"):
        for _ in itertools.islice(
            stream_of(text_files, corpora, "text", tmp_path).blocks(Place()), 9
        ):
            pass


def test_a_damaged_shard_is_left_out(damaged, corpora, text_files, tokenizer):
    folder, kinds = damaged
    shards = sorted((folder / "records").glob("shard-*"))
    whole = Counter(lines_of(open_corpus(corpora["records"], tokenizer)))
    for block_tokens in (1, BLOCK, 10**6):  # a block for each shard, several blocks, or one
        source = open_source(kinds["records"], tokenizer, block_tokens=block_tokens, **SKIP)
        blocks = [*source.blocks(0)]
        assert [file.address for b in blocks for file in b.unreadable] == [str(shards[4])]
        found = Counter(line for block in blocks for line in lines_of(block.corpus))
        assert found < whole
        lines = len(MappedFile(str(shards[4])).vector("lengths"))
        assert (whole - found).total() == pytest.approx(lines, abs=1)  # a line may be divided
    with pytest.raises(kb.InputError, match="holds the token id"):
        [*open_source(kinds["records"], tokenizer, block_tokens=BLOCK).blocks(0)]


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["text", "records"])
def test_a_run_that_leaves_out_a_file_is_killed_and_continued(damaged, text_files, tmp_path, kind):
    runs = [
        run_of(text_files, damaged[1], kind, tmp_path / name, **SKIP) for name in ("whole", "run")
    ]
    results = pretrain(runs[0], progress=False)
    fate = ("after", random.randrange(1, 28), 0, signal.SIGKILL)
    assert processes.launch(runs[1], {0: fate}) == [processes.KILLED], fate
    assert pretrain(runs[1], progress=False)["finished"]
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    rows = [row for row in log(tmp_path / "run") if row["event"] == "unreadable_file"]
    assert [row["epoch"] for row in rows] in ([0], [0, 1])  # the second epoch is not complete
    assert {row["file"] for row in rows} == {rows[0]["file"]}
    assert results["unreadable_files"] == 1


def test_a_block_start_is_what_checkpoints_store():
    assert set(BlockStart._fields) < {field.name for field in dataclasses.fields(Place)}


@pytest.fixture(scope="module")
def two_corpora(tmp_path_factory, tokenizer):
    """A corpus of suns as text, and a smaller corpus of moons as records."""
    folder, rng = tmp_path_factory.mktemp("two"), np.random.default_rng(0)
    for word, documents in (("sun", 120), ("moon", 40)):
        lines = [" ".join([word] * n) for n in rng.integers(3, 12, 5 * documents)]
        text = "\n\n".join("\n".join(lines[i : i + 5]) for i in range(0, len(lines), 5))
        (folder / f"{word}.txt").write_text(text)
    options = {"workers": 1, "shard_size": 300, "progress": False}
    tokenize(folder / "moon.txt", tokenizer, folder / "moon", **options)
    return {"mixture": [str(folder / "sun.txt"), str(folder / "moon")]}


def mixture(text_files, two_corpora, tmp_path, **options):
    options = {"objective": "mlm", "memory": 2 * MEMORY} | options
    return stream_of(text_files, two_corpora, "mixture", tmp_path, **options)


def tokens_of(block):
    tokens = np.asarray(block.examples.corpus.tokens)
    return [int((tokens == VOCABULARY.id_of(word)).sum()) for word in ("sun", "moon")]


@pytest.mark.parametrize("options", [{"weights": [0.7, 0.3]}, {"temperature": 2.0}])
def test_a_mixture_has_the_ratio_of_its_weights(
    text_files, two_corpora, tmp_path, tokenizer, options
):
    blocks = mixture(text_files, two_corpora, tmp_path, **options).blocks(Place())
    counts = np.array([tokens_of(block) for block in itertools.islice(blocks, 12)])
    blocks.close()
    sizes = [open_source([name], tokenizer).num_bytes() for name in two_corpora["mixture"]]
    expected = 0.7 if "weights" in options else 1 / (1 + (sizes[1] / sizes[0]) ** 0.5)
    suns, moons = counts.sum(0)
    assert suns / (suns + moons) == pytest.approx(expected, abs=0.02)
    assert (counts > 0).all()  # each block has both
    whole = (len(open_corpus([name], tokenizer).tokens) for name in two_corpora["mixture"])
    assert (counts.sum(0) > [*whole]).all()  # both were read more than once


def test_every_block_of_a_mixture_has_the_ratio(tmp_path, tokenizer):
    """Even if one source is so small that a block has it many times."""
    (tmp_path / "sun.txt").write_text("sun sun sun sun\n" * 2000)
    (tmp_path / "moon.txt").write_text("moon moon moon\n" * 7)
    names = [tmp_path / "sun.txt", tmp_path / "moon.txt"]
    source = open_source(names, tokenizer, block_tokens=400, weights=[1, 1])
    for block in itertools.islice(source.blocks(0, BEGIN), 4):
        moons = np.mean(np.asarray(block.corpus.tokens) == VOCABULARY.id_of("moon"))
        assert moons == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize("place", ["middle", "worker"])
def test_text_without_examples_is_not_left_out_in_silence(text_files, corpora, tmp_path, place):
    (tmp_path / "one.txt").write_text("sun rises.\n" * (400 if place == "middle" else 1))
    last = tmp_path / "last.txt"
    last.write_text((text_files / "corpus.txt").read_text())
    names = [corpora["text"][0], str(tmp_path / "one.txt"), str(last)]
    run = config(text_files, tmp_path / "run", corpus=names, memory=MEMORY, validation_ratio=0)
    workers = (0, 1) if place == "middle" else (1, 3)
    blocks = make_examples(run, make_preprocessor(run), *workers)[0].blocks(Place())
    with pytest.raises(kb.InputError, match="There is only one document"):
        for _ in itertools.islice(blocks, 20):
            pass
    blocks.close()


def test_a_mixture_continues_at_any_block(text_files, two_corpora, tmp_path):
    options = {"weights": [0.7, 0.3]}
    stream = mixture(text_files, two_corpora, tmp_path, **options)
    taken, blocks = [], stream.blocks(Place())
    for number, block in enumerate(itertools.islice(blocks, 9)):
        if number in (0, 3, 8):
            taken.append((block, batches(block)))
    blocks.close()
    for expected, rows in taken:
        stored = json.loads(json.dumps(dataclasses.asdict(expected.place)))
        later = mixture(text_files, two_corpora, tmp_path, **options).blocks(Place(**stored))
        block = next(later)
        later.close()
        assert_same_batches(block, rows)
        assert block.next_place == expected.next_place
    other = mixture(text_files, two_corpora, tmp_path, **options, seed=1).blocks(Place())
    assert not np.array_equal(batches(next(other))[0][0], taken[0][1][0][0])
    other.close()


def test_weights_that_do_not_fit_are_refused(text_files, two_corpora, tmp_path):
    for options, message in (
        ({"weights": [0.7]}, r"data.weights is \[0.7\], but must have a number above 0"),
        ({"weights": [0.7, 0.0]}, "must have a number above 0 for each of the 2 names"),
        ({"weights": [0.7, 0.3], "temperature": 2.0}, "not both"),
        ({"weights": [1, 2], "steps": None, "epochs": 1.0}, "has no epochs"),
    ):
        with pytest.raises(kb.InputError, match=message):
            mixture(text_files, two_corpora, tmp_path, **options)


@pytest.mark.parametrize("kind", ["text", "records"])
def test_a_store_that_fails_is_read_as_the_disk(
    text_files, corpora, tmp_path, monkeypatch, caplog, kind
):
    """Every 23rd call of the store fails, and reading is tried again."""
    files = {}
    for name in corpora[kind]:
        paths = [Path(name)] if kind == "text" else sorted(Path(name).iterdir())
        files |= {f"bucket/{path.name}": path.read_bytes() for path in paths}
    fsspec.register_implementation("faulty", Faulty, clobber=True)
    monkeypatch.setattr(Faulty, "files", files)
    monkeypatch.setattr(Faulty, "every", 23)
    monkeypatch.setattr(FaultyFile, "largest", 999)
    monkeypatch.setattr(remote.time, "sleep", lambda seconds: None)
    names = ["faulty://bucket"] if kind == "records" else [f"faulty://{name}" for name in files]
    streams = [
        stream_of(text_files, {kind: each}, kind, tmp_path) for each in (names, corpora[kind])
    ]
    pairs = zip(*(stream.blocks(Place()) for stream in streams), strict=True)
    for stored, here in itertools.islice(pairs, 14):
        assert stored.place == here.place
        assert lines_of(stored.examples.corpus) == lines_of(here.examples.corpus)
    assert stored.place.epoch >= 1
    assert "connection reset" in caplog.text
