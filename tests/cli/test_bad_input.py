"""Every bad input gives exit code 2 and one line that says what is wrong."""

import json
from pathlib import Path

import pytest

from tests.trees import tree, write

SPECIAL = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
PRETRAIN = ["pretrain", "pretrain.yaml", "output=o"]
RANGE = ["--score-range", "0", "4"]
FINETUNE = ["finetune", "--model", "run/model", "--output", "new", "--train"]

# Files that the cases below name: a function of the folder's own files, or their content.
FILES = {
    "empty.txt": b"",
    "latin.txt": b"one line\ncaf\xe9\n",
    "binary.bin": bytes(range(256)) * 40,
    "one_document.txt": b"a single line\nand another\n" * 40,
    "bare_vocab.txt": b"the\na\n",
    "double_vocab.txt": f"{SPECIAL}the\nthe\n".encode(),
    "gap_vocab.txt": f"{SPECIAL}the\n\na\n".encode(),
    "empty.csv": b"",
    "header.csv": b"text,label\n",
    "latin.csv": b"text,label\nfine,a\ncaf\xe9,b\n",
    "binary.csv": bytes(range(256)) * 40,
    "unlabeled.csv": b"text,label\nfine,a\nbad,\n",
    "no_label.csv": b"text,other\nfine,a\n",
    "no_text.csv": b"subject,other\nfine,a\n",
    "semicolons.csv": b"text;label\nfine;a\nbad;b\n",
    "one_class.csv": b"text,label\nfine,a\nbad,a\ngood,a\n",
    "two_classes.csv": b"text,label\nfine,a\nbad,b\ngood,a\n",
    "unknown.csv": b"text,label\nfine,praise\nbad,prase\n",
    "list.yaml": b"- a\n",
    "empty.conll": b"",
    "blank.conll": b"\n\n",
    "untagged.conll": b"the O\nfilm\n",
    "unknown.conll": b"the O\nfilm B-WERK\n",
    "untagged.jsonl": b'{"tokens": ["a", "film"]}\n',
    "outside.jsonl": b'{"text": "a film", "entities": [{"start": 1, "end": 4, "label": "W"}]}\n',
    "empty.json": b"",
    "other.json": b'{"rows": []}',
    "elsewhere.json": json.dumps(
        {
            "data": [
                {
                    "title": "a",
                    "paragraphs": [
                        {
                            "context": "it was good",
                            "qas": [
                                {
                                    "id": "q7",
                                    "question": "how ?",
                                    "answers": [{"text": "bad", "answer_start": 7}],
                                }
                            ],
                        }
                    ],
                }
            ]
        }
    ).encode(),
    "no_answer.csv": b"question,context\nhow ?,it was good\n",
    "no_choice.csv": b"context,ending0,ending1,label\nit,was,is,2\n",
    "singles.csv": b"text,label\na film,1.5\n",
    "scores.tsv": b"sentence1\tsentence2\tscore\na\tb\t1.5\na\tc\t9.5\n",
}

CASES = {
    "no such corpus": (["vocab", "none.txt", "--output", "v"], "none.txt does not exist"),
    "empty corpus": (["vocab", "empty.txt", "--output", "v"], "empty.txt is empty"),
    "corpus in another encoding": (["vocab", "latin.txt", "--output", "v"], "latin.txt, line 2"),
    "binary corpus": (["vocab", "binary.bin", "--output", "v"], "binary.bin is a binary file"),
    "tiny size": (["vocab", "text.txt", "--size", "9", "--output", "v"], "cannot hold"),
    "one document": (
        [*PRETRAIN, "data.corpus=one_document.txt"],
        "document",
    ),
    "pretraining on nothing": (
        [*PRETRAIN, "data.corpus=no.txt"],
        "no.txt",
    ),
    "pretraining on latin": (
        [*PRETRAIN, "data.corpus=latin.txt"],
        "latin.txt, line 2",
    ),
    "no special tokens": (
        [*PRETRAIN, "data.vocabulary=bare_vocab.txt"],
        "bare_vocab.txt",
    ),
    "doubled tokens": (
        [*PRETRAIN, "data.vocabulary=double_vocab.txt"],
        "double_vocab.txt",
    ),
    "empty token": (
        [*PRETRAIN, "data.vocabulary=gap_vocab.txt"],
        "gap_vocab.txt",
    ),
    "heads": ([*PRETRAIN, "model.encoder.num_heads=3"], "num_heads 3"),
    "positions": ([*PRETRAIN, "data.sequence_length=99"], "64 positions"),
    "unknown option": (["pretrain", "pretrain.yaml", "stps=9"], "did you mean schedule.steps?"),
    "an option of a run with dashes": (
        ["pretrain", "pretrain.yaml", "--batch-size", "9"],
        "Options of a run have no dashes: schedule.batch_size=VALUE. See: keras-bert pretrain",
    ),
    "no configuration": (["pretrain", "none.yaml"], "none.yaml"),
    "not a mapping": (["pretrain", "list.yaml"], "list.yaml"),
    "a run's directory with something else": (
        ["pretrain", "pretrain.yaml", "output=thesis"],
        "thesis is not empty",
    ),
    "a run without log": (["plot", "run", "thesis", "--output", "o.png"], "thesis has no log"),
    "an unknown measure": (
        ["plot", "run", "--measure", "perplexity", "--output", "o.png"],
        "No log has the measure 'perplexity'; choose from loss, mlm_loss",
    ),
    "curves as text": (["plot", "run", "--output", "o.txt"], "o.txt does not end like a picture"),
    "no training file": ([*FINETUNE, "none.csv"], "none.csv"),
    "empty training file": ([*FINETUNE, "empty.csv"], "empty.csv is empty"),
    "only a header": ([*FINETUNE, "header.csv"], "header.csv has no examples"),
    "examples in another encoding": ([*FINETUNE, "latin.csv"], "latin.csv, line 3"),
    "binary examples": ([*FINETUNE, "binary.csv"], "binary.csv is a binary file"),
    "label missing": (
        [*FINETUNE, "unlabeled.csv"],
        "unlabeled.csv, line 3: the label is missing",
    ),
    "no text column": ([*FINETUNE, "no_text.csv"], "name it (--text-column, or Columns(text"),
    "semicolons": ([*FINETUNE, "semicolons.csv"], "if ';' stands between columns, write a comma"),
    "no label column": ([*FINETUNE, "no_label.csv"], "no_label.csv has no labels"),
    "one class": ([*FINETUNE, "one_class.csv"], "all examples have the label 'a'"),
    "label unknown in validation": (
        [*FINETUNE, "two_classes.csv", "--validation", "unknown.csv"],
        "unknown.csv, line 2: the label 'praise' is unknown",
    ),
    "length": (
        [*FINETUNE, "opinions.csv", "--sequence-length", "65"],
        "sequence_length is 65, but the model has 64",
    ),
    "the run instead of its model": (
        [*FINETUNE, "opinions.csv", "--model", "run"],
        "run is not a model, but run/model is; give that one",
    ),
    "a model misspelt": (
        [*FINETUNE, "opinions.csv", "--model", "./run/modle"],
        "run/modle does not exist",
    ),
    "the output of the pretraining": (
        [*FINETUNE, "opinions.csv", "--output", "run"],
        "run would replace the model to start from, run/model",
    ),
    "the output of another pretraining": (
        [*FINETUNE, "opinions.csv", "--model", "tuned/model", "--output", "run"],
        "run holds a model that no fine-tuning wrote",
    ),
    "no model": ([*FINETUNE, "opinions.csv", "--model", "none"], "none"),
    "an output that is not ours": (
        [*FINETUNE, "opinions.csv", "--output", "thesis"],
        "thesis is not empty",
    ),
    "an output that is a file": (
        [*FINETUNE, "opinions.csv", "--output", "text.txt"],
        "text.txt is a file",
    ),
    "no epochs": ([*FINETUNE, "opinions.csv", "--epochs", "0"], "epochs is 0"),
    "a word for a number": ([*FINETUNE, "opinions.csv", "--epochs", "many"], "'many'"),
    "a task that is none": ([*FINETUNE, "opinions.csv", "--task", "guess"], "'classify'"),
    "label unknown in evaluation": (
        ["evaluate", "--model", "tuned/model", "--data", "unknown.csv"],
        "unknown.csv, line 3: the label 'prase' is unknown. Did you mean 'praise'",
    ),
    "no such column": (
        [*FINETUNE, "opinions.csv", "--text-column", "Text"],
        "opinions.csv has no column 'Text'. Did you mean 'text'? It has 'text', 'label'",
    ),
    "an option of another task": (
        [*FINETUNE, "opinions.csv", "--crf"],
        "--crf is not for the task classify",
    ),
    "a format of another task": (
        [*FINETUNE, "opinions.csv", "--format", "conll"],
        "--format conll is not for the task classify; it reads csv, tsv, jsonl, parquet",
    ),
    "files of another task": ([*FINETUNE, "tags.conll"], "tags.conll has no known ending"),
    "an unknown class for a weight": (
        [*FINETUNE, "opinions.csv", "--class-weights", "prase=2"],
        "class_weights has 'prase'",
    ),
    "a class without weight": (
        [*FINETUNE, "opinions.csv", "--class-weights", "praise"],
        "The class weight is 'praise', but must be LABEL=NUMBER",
    ),
    "class weights for tags": (
        [*FINETUNE, "tags.conll", "--task", "tag", "--class-weights", "balanced"],
        "class_weights",
    ),
    "a metric of another task": (
        [*FINETUNE, "tags.conll", "--task", "tag", "--metric", "matthews"],
        "matthews",
    ),
    "a picture that is none": (
        [*FINETUNE, "opinions.csv", "--curves", "curves.docx"],
        "give a name that ends in .png",
    ),
    "empty file of tags": ([*FINETUNE, "empty.conll", "--task", "tag"], "empty.conll is empty"),
    "no sentences": ([*FINETUNE, "blank.conll", "--task", "tag"], "blank.conll is empty"),
    "a word without tag": (
        [*FINETUNE, "untagged.conll", "--task", "tag"],
        "untagged.conll, line 2: 1 columns",
    ),
    "words without tags": (
        [*FINETUNE, "untagged.jsonl", "--task", "tag"],
        "untagged.jsonl, line 1: the tags are missing",
    ),
    "an entity that is no words": (
        [*FINETUNE, "outside.jsonl", "--task", "tag"],
        "' fi' (W, characters 1 to 4) does not begin and end where words do",
    ),
    "a column that is no number": (
        [*FINETUNE, "tags.conll", "--task", "tag", "--label-column", "tag"],
        "columns of CoNLL files have numbers",
    ),
    "a column that is not there": (
        [*FINETUNE, "tags.conll", "--task", "tag", "--label-column", "3"],
        "tags.conll has no column",
    ),
    "tag unknown in test": (
        [*FINETUNE, "tags.conll", "--task", "tag", "--test", "unknown.conll"],
        "unknown.conll, line 1: the tag 'B-WERK' of 'film' is unknown. Did you mean 'B-WORK'",
    ),
    "empty file of questions": ([*FINETUNE, "empty.json", "--task", "answer"], "empty.json"),
    "not questions": ([*FINETUNE, "other.json", "--task", "answer"], 'other.json: expected "data"'),
    "answer not in its context": (
        [*FINETUNE, "elsewhere.json", "--task", "answer"],
        "elsewhere.json, question 1 (q7): the answer 'bad' is not in its context",
    ),
    "question without answer": (
        [*FINETUNE, "no_answer.csv", "--task", "answer"],
        "no_answer.csv, line 2: the answer is missing",
    ),
    "choice that is none": (
        [*FINETUNE, "no_choice.csv", "--task", "choice"],
        "no_choice.csv, line 2: the label is 2",
    ),
    "similarity of single texts": (
        [*FINETUNE, "singles.csv", "--task", "similarity", "--validation", "singles.csv"],
        "singles.csv has single texts",
    ),
    "scores out of range": (
        [*FINETUNE, "pairs.tsv", "--task", "similarity", "--test", "scores.tsv", *RANGE],
        "scores.tsv, line 3: the score 9.5 is outside",
    ),
    "a cross-encoder of tags": (
        [*FINETUNE, "tags.conll", "--task", "tag", "--cross-encoder"],
        "--cross-encoder is not for the task tag",
    ),
    "report of numbers": (
        ["evaluate", "--model", "pairs/model", "--data", "pairs.tsv", "--report"],
        "--report is for models that give labels",
    ),
    "confusion of numbers": (
        ["evaluate", "--model", "pairs/model", "--data", "pairs.tsv", "--confusion", "o.png"],
        "--confusion is for models that give one label",
    ),
    "questions for a classifier": (
        ["evaluate", "--model", "tuned/model", "--data", "questions.json"],
        "questions.json has no known ending",
    ),
    "texts and a file": (
        ["predict", "--model", "tuned/model", "--data", "opinions.csv", "a text"],
        "Give texts or --data, not both",
    ),
    "columns of texts": (
        ["predict", "--model", "tuned/model", "--text-column", "text", "a text"],
        "--text-column is for --data",
    ),
    "answers of a classifier": (
        ["predict", "--model", "tuned/model", "a", "--squad-predictions", "o.json"],
        "tuned/model does not answer questions",
    ),
    "threshold of a classifier": (
        ["predict", "--model", "tuned/model", "a", "--null-threshold", "1"],
        "tuned/model is a SequenceClassifier, which has no threshold",
    ),
    "prediction without classifier": (
        ["predict", "--model", "run/model", "a"],
        "run/model is a PretrainingModel, which predicts nothing about texts; fine-tune it",
    ),
    "no mask": (["fill-mask", "--model", "run/model", "no mask"], "no [MASK]"),
    "a classifier for masks": (["fill-mask", "--model", "tuned/model", "[MASK]"], "cannot fill"),
    "an export format": (["export", "tuned/model", "x", "--format", "pdf"], "no format 'pdf'"),
    "export from nothing": (["export", "none", "x"], "none"),
    "no command of that name": (["finetone"], "Did you mean 'finetune'"),
    "no argument": (["vocab", "--output", "v"], "CORPUS"),
}


@pytest.fixture
def folder(small):
    for name, content in FILES.items():
        (small / name).write_bytes(content)
    (small / "thesis").mkdir(exist_ok=True)
    (small / "thesis" / "chapter.txt").write_text("mine")
    return small


@pytest.mark.parametrize(("arguments", "message"), CASES.values(), ids=CASES)
def test_one_line_and_code_2(arguments, message, run, folder):
    before = {str(path) for path in folder.rglob("*")}
    result = run(*arguments)
    assert result.code == 2, result.out
    assert len(result.errors) == 1, result.errors
    assert message in result.errors[0]
    made = {str(path.relative_to(folder)) for path in folder.rglob("*")} - {
        str(Path(path).relative_to(folder)) for path in before
    }
    assert not {path for path in made if not path.startswith("o")}, "nothing is left behind"


def test_a_repository_with_a_file_of_a_common_name_is_left_alone(run, folder):
    write(folder / "repository", {".git/HEAD": "main", "config.json": "{}\n"})
    before = tree(folder / "repository")
    result = run("convert", "run/model", "repository", "--to", "huggingface")
    assert (result.code, len(result.errors)) == (2, 1)
    assert "repository/config.json describes no model" in result.errors[0]
    assert tree(folder / "repository") == before


@pytest.mark.parametrize("line", ["how was it ?", "how\twas\tit ?"])
def test_lines_that_are_no_questions(run, tuned, line):
    result = run("predict", "--model", tuned("answer"), line)
    assert (result.code, len(result.errors)) == (2, 1)
    assert "expected a question and its context with a tab between" in result.errors[0]


def test_models_of_another_task(run, folder, tuned):
    result = run("evaluate", "--model", tuned("tag"), "--data", "questions.json")
    assert (result.code, len(result.errors)) == (2, 1)
    result = run("evaluate", "--model", tuned("choice"), "--data", "opinions.csv")
    assert (result.code, len(result.errors)) == (2, 1)
    assert "opinions.csv: which column holds the choices?" in result.errors[0]


def test_lines_that_are_not_text(run):
    result = run("predict", "--model", "tuned/model", stdin=b"fine\n\xff\n")
    assert (result.code, len(result.errors)) == (2, 1)
    assert "Standard input, line 2: byte 0xff is not UTF-8" in result.errors[0]
