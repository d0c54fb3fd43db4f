import sys
import types

import numpy as np
import pytest

from keras_bert.errors import InputError
from keras_bert.finetuning import GLUE, read_glue
from keras_bert.metrics import METRICS

# A line of each task's files as gluebenchmark.com gives them, with the header where there is one.
MNLI = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2"
)
STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
TRAIN = {
    "cola": 'gj04\t0\t*\tThe "dog bark.\ngj04\t1\t\tDogs bark.\n',
    "sst2": 'sentence\tlabel\nso "odd \t0\nfine \t1\n',
    "mrpc": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
    '0\t1\t2\tA "b\tc\r\n1\t3\t4\td\te\r\n',
    "stsb": f"{STSB}\tscore\n"
    "0\tg\tf\t2012\t1\tn\tn\tA plane.\tAn air plane.\t5.000\n1\tg\tf\t2012\t1\tn\tn\tA\tB\t0.25\n",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    "7\t1\t2\tWhy?\tHow?\t0\n8\t1\t2\ta\tb\t1\n",
    "mnli": f"{MNLI}\tlabel1\tgold_label\n"
    "0\t1\t1n\tfiction\t( a )\t( b )\tx\ty\tIt rains.\tIt is dry.\tneutral\tcontradiction\n"
    "1\t1\t1e\tfiction\t( a )\t( b )\tx\ty\ta\tb\tneutral\tentailment\n",
    "qnli": "index\tquestion\tsentence\tlabel\n"
    "0\tWho?\tAda.\tentailment\n1\tWho?\tNo.\tnot_entailment\n",
    "rte": "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\tc\td\tnot_entailment\n",
    "wnli": "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n1\tc\td\t0\n",
}
TEST = {
    "cola": "index\tsentence\n0\tDogs bark.\n",
    "sst2": "index\tsentence\n0\tfine\n",
    "mrpc": "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\ta\tb\n",
    "stsb": f"{STSB}\n0\tg\tf\t2012\t1\tn\tn\ta\tb\n",
    "qqp": "id\tquestion1\tquestion2\n0\ta\tb\n",
    "mnli": f"{MNLI}\n0\t1\t1n\tfiction\tx\ty\tx\ty\ta\tb\n",
    "qnli": "index\tquestion\tsentence\n0\ta\tb\n",
    "rte": "index\tsentence1\tsentence2\n0\ta\tb\n",
    "wnli": "index\tsentence1\tsentence2\n0\ta\tb\n",
}
FIRST = {
    "cola": ('The "dog bark.', None, "0"),
    "sst2": ('so "odd ', None, "0"),
    "mrpc": ('A "b', "c", "0"),
    "stsb": ("A plane.", "An air plane.", "5.000"),
    "qqp": ("Why?", "How?", "0"),
    "mnli": ("It rains.", "It is dry.", "contradiction"),
    "qnli": ("Who?", "Ada.", "entailment"),
    "rte": ("a", "b", "entailment"),
    "wnli": ("a", "b", "1"),
}
OFFICIAL = {
    "cola": {"matthews"},
    "sst2": {"accuracy"},
    "mrpc": {"accuracy", "f1"},
    "stsb": {"pearson", "spearman"},
    "qqp": {"accuracy", "f1"},
    "mnli": {"accuracy"},
    "qnli": {"accuracy"},
    "rte": {"accuracy"},
    "wnli": {"accuracy"},
}


def write(folder, name, content):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content.encode())
    return folder


def first(examples):
    pair = None if examples.pairs is None else examples.pairs[0]
    return examples.texts[0], pair, examples.labels and examples.labels[0]


def test_nine_tasks_with_official_metrics():
    assert {name: set(task.metrics) for name, task in GLUE.items()} == OFFICIAL
    assert all(metric in METRICS for task in GLUE.values() for metric in task.metrics)
    assert {name for name, task in GLUE.items() if task.problem_type == "regression"} == {"stsb"}


@pytest.mark.parametrize("name", GLUE)
def test_local_files(tmp_path, name):
    task = GLUE[name]
    for split, file in task.files.items():
        content = (TEST if split.startswith("test") else TRAIN)[name]
        write(tmp_path / task.folder, file, content)
    for split in task.files:
        examples = read_glue(name, split, tmp_path)
        if split.startswith("test"):
            assert examples.labels is None
            assert (
                first(examples)[0]
                == TEST[name].split("\n")[1].split("\t")[-2 if examples.pairs else -1]
            )
        else:
            assert first(examples) == FIRST[name]
            assert len(examples) == 2
            assert set(examples.labels) <= set(task.labels or examples.labels)
            assert len(set(examples.labels)) == 2
            place = f"{tmp_path / task.folder / task.files[split]}, line {1 + task.header}"
            assert examples.place(0) == place
    assert read_glue(name, "train", tmp_path / task.folder) == read_glue(name, "train", tmp_path)


@pytest.mark.parametrize("name", GLUE)
def test_tensorflow_datasets(monkeypatch, tmp_path, name):
    task = GLUE[name]
    local = read_glue(name, "train", write(tmp_path, task.files["train"], TRAIN[name]))
    columns = [local.texts] if local.pairs is None else [local.texts, local.pairs]
    rows = []
    for index, label in enumerate(local.labels):
        row = {
            key: texts[index].encode() for key, texts in zip(task.features, columns, strict=True)
        }
        row["label"] = np.int64(task.labels.index(label)) if task.labels else np.float32(label)
        rows.append({**row, "idx": np.int32(index)})

    def load(path, split):
        assert (path, split) in {(f"glue/{name}", part) for part in task.files}
        return rows

    fake = types.SimpleNamespace(load=load, as_numpy=iter)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", fake)
    examples = read_glue(name)
    assert (examples.texts, examples.pairs) == (local.texts, local.pairs)
    if task.labels:
        assert examples.labels == local.labels
    else:
        assert list(map(float, examples.labels)) == list(map(float, local.labels))
    assert examples.place(1) == f"glue/{name}, train example 2"
    assert read_glue(name, list(task.files)[-1]).labels is None


def test_tensorflow_datasets_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(
        InputError, match="glue/rte needs the package tensorflow_datasets, which is not"
    ):
        read_glue("rte")


def test_mrpc_as_microsoft_gives_it(tmp_path):
    write(tmp_path, "msr_paraphrase_train.txt", TRAIN["mrpc"])
    write(tmp_path, "msr_paraphrase_test.txt", TRAIN["mrpc"])
    assert read_glue("mrpc", "train", tmp_path).labels == ("0", "1")
    assert read_glue("mrpc", "test", tmp_path).labels == ("0", "1")
    with pytest.raises(InputError, match="dev_ids.tsv does not exist"):
        read_glue("mrpc", "validation", tmp_path)
    write(tmp_path, "dev_ids.tsv", "3\t4\n2\t1\n")
    assert read_glue("mrpc", "train", tmp_path).labels == ("0",)
    assert read_glue("mrpc", "validation", tmp_path).texts == ("d",)


@pytest.mark.private_data
@pytest.mark.parametrize(
    ("name", "train", "dev"), [("sst2", 67_349, 872), ("mrpc", 3_667, 408), ("stsb", 5_749, 1_500)]
)
def test_real_files(shared_data, name, train, dev):
    folder = shared_data / "datasets" / name
    assert len(read_glue(name, "train", folder)) == train
    examples = read_glue(name, "validation", folder)
    assert len(examples) == dev
    assert (examples.pairs is None) == (name == "sst2")


def test_rows_that_cannot_be_used(tmp_path, caplog):
    write(tmp_path, "train.tsv", TRAIN["rte"] + "2\ta\tb\tmaybe\n3\ta\tb\n4\te\tf\tentailment\n")
    with pytest.raises(InputError, match="train.tsv, line 5: 3 fields"):
        read_glue("rte", "train", tmp_path)
    assert read_glue("rte", "train", tmp_path, on_error="skip").lines == (2, 3, 6)
    assert "line 4: the label is 'maybe', but the labels of rte are entailment" in caplog.text


def test_unknown_tasks_and_parts(tmp_path):
    with pytest.raises(InputError, match="no task 'sst-2'. Did you mean 'sst2'"):
        read_glue("sst-2", "train", tmp_path)
    with pytest.raises(
        InputError, match="mnli has no split 'validation': give train, validation_ma"
    ):
        read_glue("mnli", "validation", tmp_path)
    with pytest.raises(InputError, match="dev.tsv does not exist"):
        read_glue("rte", "validation", tmp_path)
