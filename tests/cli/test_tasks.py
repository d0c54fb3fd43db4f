"""Every task from file to prediction."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.cli.files import is_predictions, json_line
from keras_bert.cli.finetune import command as finetune
from keras_bert.cli.options import FORMATS, GLUE_TASKS
from keras_bert.errors import InputError
from keras_bert.finetuning import GLUE, Recipe, read
from keras_bert.finetuning.jobs import job_of_task
from keras_bert.finetuning.tasks import usable
from keras_bert.options import fields
from keras_bert.tasks.registry import FINE_TUNED
from tests.cli.conftest import KINDS, RECIPE, TASKS
from tests.cli.test_commands import json_lines
from tests.marks import others_swept
from tests.text.test_loading import KINDS as TOKENIZERS

SENTENCE = "the film number 3 was good ."

# Directory: the class, its data, a metric and what it must reach, a line to predict from, and
# what the prediction has besides the inputs.
FACTS = {
    "tag": ("TokenClassifier", "tags.conll", "f1", 0.9, SENTENCE, "tags entities"),
    "crf": ("TokenClassifier", "tags.conll", "f1", 0.9, SENTENCE, "tags entities"),
    "answer": (
        "SpanClassifier", "questions.json", "has_answer_f1", 0.9, f"how was it ?\t{SENTENCE}",
        "id answer start end score null_difference",
    ),
    "choice": (
        "MultipleChoice", "choices.csv", "accuracy", 0.9, "the film\twas good\tsaid a word",
        "choice text scores",
    ),
    "cosine": ("TextEmbedder", "pairs.tsv", "spearman", -1, SENTENCE, "embedding"),
    "contrastive": ("TextEmbedder", "friends.jsonl", "mrr", 0.1, SENTENCE, "embedding"),
    "cross": ("SequenceClassifier", "pairs.tsv", "pearson", -1, SENTENCE, "score"),
}  # fmt: skip
PAIRS = {"cosine": "cosine", "contrastive": "cosine", "cross": "score"}


@pytest.mark.parametrize("name", TASKS)
def test_from_file_to_prediction(run, small, tuned, name):
    kind, data, metric, least, line, keys = FACTS[name]
    model = tuned(name)
    assert type(kb.load(small / model)).__name__ == kind
    measured = json.loads((small / name / "metrics.json").read_text())["validation"]
    (found,) = json_lines(run("evaluate", "--model", model, "--data", data))
    assert found.keys() == {"examples", *measured}
    assert found[metric] >= least

    of_file = json_lines(run("predict", "--model", model, "--data", data))
    assert len(of_file) == found["examples"]
    # A text with a score alone may as well be an example, so it is not replaced.
    assert is_predictions(json_line(of_file[0])) == (name != "cross")
    of_lines = json_lines(run("predict", "--model", model, stdin=f"{line}\n".encode() * 3))
    assert len(of_lines) == 3
    assert set(keys.split()) <= of_lines[0].keys()
    if name in PAIRS:
        line = "the film\tthe book"
        (prediction,) = json_lines(run("predict", "--model", model, "--pairs", line))
        assert prediction.keys() == {"text", "pair", PAIRS[name]}


def test_tags_that_are_prefixes_alone(tmp_path):
    (tmp_path / "genes.txt").write_text("TP53 B\ngene I\nis O\n\nnone O\n")
    examples = read("token_classifier", tmp_path / "genes.txt")
    arguments = job_of_task("token_classifier").arguments(examples)
    assert (arguments["labels"], arguments["scheme"]) == (["O", "B", "I"], "iob2")
    model = SimpleNamespace(**arguments)
    assert len(usable(examples, model, "skip")) == 2


def test_pairs_of_a_file(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("a,b\nc,d\n")
    examples = read("embedder", path, header=False)
    assert (examples.pairs, examples.labels) == (("b", "d"), None)
    path.write_text("a,b,0.5\nc,d,\n")
    with pytest.raises(InputError, match="line 2: the label is missing"):
        read("embedder", path, header=False)
    assert read("embedder", path, header=False, labeled=False).labels is None


def test_any_encoder_is_an_embedder(run):
    options = ["--task", "similarity", "--model", "run/model"]
    (found,) = json_lines(run("predict", *options, "a film"))
    assert len(found["embedding"]) == 16
    (found,) = json_lines(run("evaluate", *options, "--data", "pairs.tsv"))
    assert found.keys() == {"examples", "loss", "spearman", "pearson"}


def test_what_can_answer_learns_on(run, small, tuned, tmp_path):
    files = ["--train", "questions.json", "--output", tmp_path / "out"]
    options = ["--epochs", "1", "--learning-rate", "1e-9", "--null-threshold", "3"]
    before = kb.load(small / tuned("answer"))
    command = ["finetune", "--task", "answer", "--model", tuned("answer"), *files, *options]
    assert run(*command).code == 0
    after = kb.load(tmp_path / "out" / "model")
    assert after.null_threshold == 3
    for one, two in zip(before.head.get_weights(), after.head.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_entities_are_slices_of_the_text(run, tuned):
    text = "Thé  FILM\u3000number 3 was  good ."
    for name in ("tag", "crf"):
        (found,) = json_lines(run("predict", "--model", tuned(name), text))
        assert [entity["text"] for entity in found["entities"]] == ["FILM\u3000number 3", "good"]
        for entity in found["entities"]:
            assert text[entity["start"] : entity["end"]] == entity["text"]


def test_predictions_as_squad_wants_them(run, small, tuned):
    options = ["--data", "questions.json", "--output", "lines.jsonl"]
    options += ["--squad-predictions", "answers.json"]
    assert json_lines(run("predict", "--model", tuned("answer"), *options)) == []
    lines = [json.loads(line) for line in (small / "lines.jsonl").read_text().splitlines()]
    answers = json.loads((small / "answers.json").read_text())
    assert answers == {line["id"]: line["answer"] for line in lines}
    assert answers["a1"] == KINDS[1][1]
    for threshold, empty in (("-1e9", True), ("1e9", False)):
        run("predict", "--model", tuned("answer"), *options, "--null-threshold", threshold)
        answers = json.loads((small / "answers.json").read_text())
        assert all((answer == "") == empty for answer in answers.values())


def test_questions_on_standard_input_have_names_of_their_own(run, small, tuned):
    options = ["--batch-size", "2", "--squad-predictions", "named.json"]
    lines = "".join(f"how was it ?\t{SENTENCE}\n" for _ in range(5)).encode()
    found = json_lines(run("predict", "--model", tuned("answer"), *options, stdin=lines))
    assert [line["id"] for line in found] == ["1", "2", "3", "4", "5"]
    assert len(json.loads((small / "named.json").read_text())) == 5


def test_lines_are_answered_as_they_come(run):
    options = ["--model", "tuned/model", "--batch-size", "1"]
    result = run("predict", *options, stdin=b"fine\n\xff\n")
    assert (result.code, len(result.out.splitlines())) == (2, 1)


def test_an_output_appears_when_it_is_complete(run, small):
    options = ["--model", "tuned/model", "--batch-size", "1", "--output", "new/lines.jsonl"]
    assert run("predict", *options, stdin=b"fine\n\xff\n").code == 2
    assert not list((small / "new").iterdir())
    assert run("predict", *options, stdin="fine\n\ud83d".encode("utf-8", "replace")).code == 0
    assert len((small / "new" / "lines.jsonl").read_text().splitlines()) == 2


def test_report_and_confusion(run, small, tuned):
    pytest.importorskip("matplotlib")
    for model, data, labels in (
        (tuned("crf"), "tags.conll", {"WORK", "PRAISE", "BLAME"}),
        ("tuned/model", "opinions.csv", {"praise", "blame"}),
    ):
        options = ["--model", model, "--data", data, "--report", "--confusion", "matrix.png"]
        (found,) = json_lines(run("evaluate", *options, "--json"))
        assert found["labels"].keys() == labels
        assert (small / "matrix.png").read_bytes().startswith(b"\x89PNG")
        (small / "matrix.png").unlink()
        table = run("evaluate", *options[:5]).out.splitlines()
        assert max(map(len, table)) <= 80
        for label, scores in found["labels"].items():
            line = next(line for line in table if line.startswith(f"{label} "))
            assert f"{scores['f1']:.3f}" in line
    right = sum(label["recall"] * label["support"] for label in found["labels"].values())
    assert right == pytest.approx(found["accuracy"] * found["examples"])


def test_scores_of_several_labels(run):
    (found,) = json_lines(run("predict", "--model", "tuned/model", "--top-k", "all", "a film"))
    assert found["scores"].keys() == {"praise", "blame"}
    assert found["score"] == max(found["scores"].values())
    (one,) = json_lines(run("predict", "--model", "tuned/model", "a film"))
    assert one.keys() == {"text", "label", "score"}
    result = run("predict", "--model", "tuned/model", "--top-k", "0", "a film")
    assert (result.code, len(result.errors)) == (2, 1)
    result = run("predict", "--model", "pairs/model", "--top-k", "2", "a film")
    assert result.errors == [
        "keras-bert: top_k is 2, but this model predicts numbers and has no labels to rank; leave "
        "top_k at 1."
    ]


def test_what_is_no_number_is_null(run, tmp_path):
    (tmp_path / "same.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t1.5\na\tc\t1.5\n")
    result = run("evaluate", "--model", "pairs/model", "--data", tmp_path / "same.tsv")
    found = json.loads(result.out, parse_constant=pytest.fail)
    assert (found["pearson"], found["spearman"]) == (None, None)


def test_several_labels_of_a_text(run, tmp_path):
    text = "text;labels\n" + "a film;good,new\nthe book;bad\na play;\nthe song;new\n" * 5
    (tmp_path / "many.csv").write_text(text.replace(",", "|").replace(";", ","))
    data = ["--separator", "|", "--model"]
    options = ["--train", tmp_path / "many.csv", "--output", tmp_path / "out", "--epochs", "1"]
    assert run("finetune", *data, "run/model", *options).code == 0
    model = tmp_path / "out" / "model"
    options = ["--data", tmp_path / "many.csv", "--report", "--json"]
    (found,) = json_lines(run("evaluate", *data, model, *options))
    assert {label: values["support"] for label, values in found["labels"].items()} == {
        "good": 5,
        "bad": 5,
        "new": 10,
    }


def test_bad_rows_are_skipped_on_request(run, small, tmp_path):
    (tmp_path / "some.csv").write_text("text,label\nfine,praise\nbad,\nso so,prase\npoor,blame\n")
    options = ["--model", "tuned/model", "--data", tmp_path / "some.csv", "--on-error", "skip"]
    result = run("evaluate", *options)
    assert json.loads(result.out)["examples"] == 2
    assert sum("1 of 4 examples are skipped" in line for line in result.errors) == 1
    assert sum("1 of 3 examples are skipped" in line for line in result.errors) == 1


def test_an_interrupted_run_goes_on(run, small, monkeypatch):
    from keras_bert.finetuning import training

    def command(output):
        files = ["--train", "opinions.csv", "--validation", "opinions.csv"]
        return run("finetune", "--model", "run/model", *files, "--output", output, *RECIPE.split())

    save = training.save_progress

    def interrupted(*arguments, **options):
        save(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "save_progress", interrupted)
        assert command("broken").code == 130
    assert (small / "broken" / "unfinished").is_dir()
    again, whole = command("broken"), command("whole")
    assert (again.code, whole.code) == (0, 0)
    assert "Epoch 1/" not in again.out
    first, second = (
        json.loads((small / d / "metrics.json").read_text()) for d in ("broken", "whole")
    )
    assert first["validation"] == pytest.approx(second["validation"], rel=1e-4)


def without_hint(errors):
    """Removes the hints that a model this small may get."""
    hints = ("Nothing learned yet: ", "The validation ")
    return [line for line in errors if not line.startswith(hints)]


def test_all_of_the_recipe(run, small, tmp_path):
    pytest.importorskip("matplotlib")
    options = (
        "--epochs 2 --batch-size 8 --learning-rate 1e-3 --warmup 0.2 --weight-decay 0.1 "
        "--global-clipnorm 2 --layer-decay 0.9 --crf-rate 7 --frozen-layers -1 "
        "--gradient-accumulation-steps 2 --lora-rank 4 "
        "--patience 1 --label-smoothing 0.1 --class-weights praise=2 --r-drop 0.5 "
        "--no-length-buckets --no-baseline-head --metric macro_f1 --seed 3 --dtype mixed_bfloat16 "
        "--sequence-length 24 --pooling mean"
    )
    files = ["--train", "opinions.csv", "--output", tmp_path / "out"]
    curves = ["--curves", tmp_path / "curves.png"]
    result = run("finetune", "--model", "run/model", *files, *curves, *options.split())
    assert (result.code, without_hint(result.errors)) == (0, [])
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    recipe = json.loads((tmp_path / "out" / "metrics.json").read_text())["recipe"]
    assert recipe == (
        Recipe(
            epochs=2,
            batch_size=8,
            learning_rate=1e-3,
            warmup=0.2,
            weight_decay=0.1,
            global_clipnorm=2,
            layer_decay=0.9,
            crf_rate=7.0,
            frozen_layers=-1,
            lora_rank=4,
            gradient_accumulation_steps=2,
            patience=1,
            label_smoothing=0.1,
            class_weights={"praise": 2.0},
            r_drop=0.5,
            length_buckets=False,
            metric="macro_f1",
            seed=3,
            sequence_length=24,
            baseline=True,
            baseline_head=False,
        ).to_dict()
    )
    model = kb.load(tmp_path / "out" / "model")
    assert (model.preprocessor.sequence_length, model.pooling) == (24, "mean")
    assert model.dtype_policy.name == "float32"


def test_the_defaults_are_those_of_a_recipe():
    context = finetune.make_context("finetune", ["--model=m", "--train=t", "--output=o"])
    given = {name: context.params[name] for name in fields(Recipe)}
    assert given["class_weights"] == ()
    assert Recipe(**given) == Recipe()
    assert sorted(GLUE_TASKS) == sorted(GLUE)
    assert set(FORMATS) == {each for task in FINE_TUNED for each in job_of_task(task).formats}


def test_files_of_glue(run, tmp_path):
    words = [verdict for _, verdict in KINDS]
    for name, count in (("train.tsv", 40), ("dev.tsv", 8)):
        rows = [f"gj04\t{n % 2}\t{'*' * (n % 2)}\tit was {words[n % 4]}" for n in range(count)]
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    files = ["--train", tmp_path / "train.tsv", "--validation", tmp_path / "dev.tsv"]
    options = ["--glue", "cola", "--output", tmp_path / "out", "--epochs", "1"]
    result = run("finetune", "--model", "run/model", *files, *options)
    assert (result.code, without_hint(result.errors)) == (0, [])
    found = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert found["recipe"]["metric"] == "matthews"
    options = ["--model", tmp_path / "out" / "model", "--glue", "cola", "--data"]
    (measured,) = json_lines(run("evaluate", *options, tmp_path / "dev.tsv"))
    assert measured["examples"] == 8
    (tmp_path / "my.tsv").write_text("a\tb\n")
    result = run("evaluate", *options, tmp_path / "my.tsv")
    assert result.code == 2
    assert (
        "my.tsv is not a file of GLUE's task cola; give train.tsv, dev.tsv, test.tsv"
        in result.errors[0]
    )


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("family", others_swept(["roberta", "albert"]))
def test_masks_of_other_families(run, tmp_path, kind, family):
    tokenizer = TOKENIZERS[kind]()
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "intermediate_size": 16}
    positions = {"max_positions": 32, "vocabulary_size": len(tokenizer.vocabulary)}
    config = kb.EncoderConfig(family=family, **sizes, **positions)
    preprocessor = kb.Preprocessor(tokenizer, 16)
    model = kb.MaskedLanguageModel(kb.Encoder(config), preprocessor=preprocessor)
    kb.save(model, tmp_path / "model")
    mask = tokenizer.vocabulary.mask
    options = ["--model", tmp_path / "model", "--top-k", "2"]
    found = json_lines(run("fill-mask", *options, f"the {mask} is", f"{mask} {mask}"))
    assert [len(line["masks"]) for line in found] == [1, 2]
    assert all(0 <= one["score"] <= 1 for line in found for mask in line["masks"] for one in mask)
    result = run("fill-mask", *options, "no")
    assert result.code == 2
    assert f"There is no {mask} within the first 16 tokens" in result.errors[0]


def test_long_texts_in_windows(run, small, tmp_path):
    text = (
        "text,label\n"
        + "".join(
            f"{'the film ' * 20}{word},{label}\n"
            for word, label in (("good", "praise"), ("bad", "blame"))
        )
        * 8
    )
    (tmp_path / "long.csv").write_text(text)
    options = ["--train", tmp_path / "long.csv", "--epochs", "1", "--sequence-length", "16"]
    options += ["--windows", "max", "--max-windows", "4", "--output", tmp_path / "out"]
    result = run("finetune", "--model", "run/model", *options)
    assert result.code == 0, result.errors
    model = tmp_path / "out" / "model"
    loaded = kb.load(model)
    assert (loaded.windows, loaded.max_windows) == ("max", 4)
    result = run("predict", "--model", model, "--batch-size", "2", "--data", tmp_path / "long.csv")
    assert len(json_lines(result)) == 16
    lines = b"the " * 99 + b"\n" + b"film\n" * 3
    result = run("predict", "--model", model, "--batch-size", "1", stdin=lines)
    assert result.errors == [
        "1 of 4 texts is longer than 4 windows of 16 tokens and is cut; set a larger max_windows."
    ]
