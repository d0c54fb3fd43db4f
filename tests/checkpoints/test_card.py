"""README.md beside the weights."""

import re

import numpy as np
import pytest
import yaml
from huggingface_hub import ModelCard, metadata_load

import keras_bert as kb
from keras_bert.checkpoints.card import ModelCardData, make_card, model_index, read_card_data
from keras_bert.cli import main
from keras_bert.tasks.registry import TASKS
from tests.finetuning import tiny
from tests.marks import others_swept

ARGUMENTS = {
    "classifier": {"labels": ["bad", "good"]},
    "token_classifier": {"labels": ["O", "B-PER"]},
}
LIBRARIES = {
    "native": "keras-bert-encoders",
    "huggingface": "transformers",
    "sentence-transformers": "sentence-transformers",
}
CASES = [
    *(("native", task) for task in TASKS),
    *(("huggingface", task) for task in TASKS if task not in ("embedder", "replaced_token")),
    ("sentence-transformers", "embedder"),
]
"""Formats and the tasks that they have of BERT."""


def model_of(task, preprocessor=None, **options):
    encoder = tiny.encoder(pooler=True)
    if task == "encoder":
        encoder.preprocessor = preprocessor
        return encoder
    return TASKS[task].model_class(
        encoder, preprocessor=preprocessor, **ARGUMENTS.get(task, {}) | options
    )


def classifier(**options):
    return model_of("classifier", **{"preprocessor": tiny.preprocessor()} | options)


def limits(model):
    return make_card(model).split("## Limits\n")[1]


def code_of(text):
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return code


@pytest.mark.parametrize(
    ("format", "task", "with_text"),
    others_swept(
        [(*case, with_text) for case in CASES for with_text in (True, False)],
        quick=[
            *((*case, True) for case in CASES if case[0] != "huggingface"),
            ("huggingface", "classifier", True),
            ("native", "classifier", False),
        ],
    ),
)
def test_hubs_read_it_and_its_code_runs(format, task, with_text, tmp_path, monkeypatch):
    model = model_of(task, tiny.preprocessor() if with_text else None)
    kb.save(model, tmp_path / "model", format)
    text = (tmp_path / "model" / "README.md").read_text()
    metadata = metadata_load(tmp_path / "model" / "README.md")
    assert metadata["library_name"] == LIBRARIES[format]
    assert metadata["tags"] == ["keras-bert-encoders", "bert"]
    assert metadata.keys() <= {"library_name", "pipeline_tag", "tags"}  # the rest is not known
    assert ModelCard(text).data.to_dict() == metadata
    monkeypatch.chdir(tmp_path / "model")
    names = {}
    *imports, call = code_of(text).strip().split("\n")
    exec("\n".join(imports) + f"\nresult = {call}", names)
    assert type(names["model"]) is TASKS[task].model_class
    assert (names["model"].preprocessor is not None) == with_text
    assert names["result"] is not None


def test_facts_are_told():
    metrics = {"loss": 0.3, "accuracy": 0.91234, "matthews": float("nan"), "macro_f1": 0.9}
    model = classifier()
    metadata = {"license": "mit", "language": ["en", "no"], "datasets": ["our/mails"]}
    measured = model_index(model, {"test": ("mails.csv", metrics)})
    card_data = ModelCardData(
        metadata | measured, {"Data": "Mails of *one* year.", "Thanks": "To all."}
    )
    card = ModelCard(make_card(model, card_data=card_data))
    assert (card.data.license, card.data.language) == ("mit", ["en", "no"])
    found = {r.metric_name: (r.metric_type, r.metric_value) for r in card.data.eval_results}
    assert found == {"accuracy": ("accuracy", 0.9123), "macro_f1": ("f1", 0.9)}
    result = card.data.eval_results[0]
    assert (result.task_type, result.dataset_name) == ("text-classification", "mails.csv")
    assert (result.dataset_type, result.dataset_split) == ("csv", "test")
    headings = re.findall("^## (.*)$", card.text, flags=re.MULTILINE)
    assert headings == ["Use", "Labels", "Data", "Limits", "Thanks"]
    assert "Not recorded here: recipe, metrics." in card.text
    assert "\n## Labels\n\nIn the order of the logits:\n\n```yaml\n- bad\n- good\n```" in card.text
    limits = ModelCard(make_card(model, card_data=ModelCardData({}, {"Limits": "None."}))).text
    assert limits.count("## Limits") == 1
    assert "## Limits\n\nNone.\n" in limits


def test_labels_of_any_kind_stay_labels():
    labels = ["---", "a\n## b", "```", "| x", "no", "ü", "<!-- -->"]
    card = ModelCard(make_card(classifier(labels=labels)))
    (block,) = re.findall(r"## Labels\n.*?```yaml\n(.*?)\n```\n", card.text, flags=re.DOTALL)
    assert yaml.safe_load(block) == labels
    assert re.findall("^## (.*)$", card.text, re.MULTILINE) == ["Use", "Labels", "Limits"]
    fences = ["one\n````\ntwo", "b"]
    (block,) = re.findall(
        "^`{5}yaml\n(.*)^`{5}$", make_card(classifier(labels=fences)), re.MULTILINE | re.DOTALL
    )
    assert yaml.safe_load(block) == fences


def test_the_limits_are_those_of_the_model():
    model = classifier()
    assert "Texts of more than 16 tokens, special tokens included, are cut." in limits(model)
    long = ["film " * count for count in (14, 15)]
    masks = np.sum(model.preprocessor(long)["padding_mask"], axis=1)
    assert masks.tolist() == [16, 16]  # the second one has lost a word
    assert "has 32 positions; texts cannot be longer" in limits(model)
    model({"token_ids": np.ones((1, 32), "int32")})
    with pytest.raises(kb.InputError, match="32 positions"):
        model({"token_ids": np.ones((1, 33), "int32")})
    assert "always predicts one of its labels" in limits(model)
    assert "lowercased" in limits(model)
    cased = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(tiny.TOKENS), lowercase=False), 16)
    assert "lowercased" not in limits(classifier(preprocessor=cased))
    assert "always" not in limits(classifier(problem_type="multi_label"))
    assert "always" not in limits(classifier(problem_type="regression", labels=["score"]))
    tagger = limits(model_of("token_classifier", tiny.preprocessor()))
    assert "into windows of that length" in tagger
    assert "always" not in tagger  # O is none of its entities
    relative = tiny.encoder(position_input=False)
    assert "positions" not in limits(relative)
    assert "Not recorded here: license, languages, data, recipe, metrics." in limits(relative)


def test_equal_models_have_equal_cards(tmp_path):
    for name in ("a", "b"):
        kb.save(classifier(), tmp_path / name)
    a, b = ((tmp_path / name / "README.md").read_bytes() for name in ("a", "b"))
    assert a == b
    assert a != make_card(classifier(labels=["no", "yes"])).encode()


@pytest.mark.parametrize("format", ["native", "huggingface"])
def test_what_a_person_wrote_stays(format, tmp_path, caplog):
    readme = tmp_path / "model" / "README.md"
    kb.save(classifier(), tmp_path / "model", format)
    kb.save(classifier(labels=["no", "yes"]), tmp_path / "model", format)
    assert "- 'yes'\n" in readme.read_text()  # ours, so it is written anew
    assert not caplog.records
    for by_hand in (
        readme.read_text().replace("## Limits", "It cannot tell irony.\n\n## Limits"),
        readme.read_text() + "My own words.\n",
        "My own words.\n",
        b"\xff\x00 in no encoding",
    ):
        by_hand = by_hand if isinstance(by_hand, bytes) else by_hand.encode()
        readme.write_bytes(by_hand)
        caplog.clear()
        kb.save(classifier(), tmp_path / "model", format, card=ModelCardData({"license": "mit"}))
        assert readme.read_bytes() == by_hand
        assert "README.md was written by hand and stays" in caplog.text
        assert kb.load(tmp_path / "model").labels == ("bad", "good")
    kb.save(classifier(), tmp_path / "model", format, card="Other words.\n")
    assert readme.read_text() == "Other words.\n"
    readme.unlink()
    kb.save(classifier(), tmp_path / "model", format)
    assert "## Limits" in readme.read_text()


@pytest.mark.parametrize("format", ["google", "keras-hub"])
def test_formats_without_a_card(format, tmp_path):
    with pytest.raises(kb.InputError, match=f"The format '{format}' has no model card; leave"):
        kb.save(tiny.encoder(), tmp_path / "model", format, card="words")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "card",
    [
        "Mail \udc80.",
        ModelCardData({"license": "mit\udc80"}, {"Data": "\ud800", "\udc80": "Mail."}),
    ],
)
def test_lone_surrogates_are_replaced(card, tmp_path):
    for _ in range(2):  # the second time, the first card is read
        kb.save(tiny.encoder(), tmp_path, card=card)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert "\ufffd" in text


def test_what_is_no_card(tmp_path):
    with pytest.raises(
        kb.InputError, match="The card is a dict, but must be a text or ModelCardData"
    ):
        kb.save(tiny.encoder(), tmp_path / "model", card={"license": "mit"})
    assert not (tmp_path / "model").exists()


def convert(source, target, *options):
    assert main(["convert", str(source), str(target), *options]) == 0
    return (target / "README.md").read_text()


def test_converting_takes_the_facts_along(tmp_path):
    model = classifier()
    measured = model_index(model, {"test": ("mails.csv", {"accuracy": 0.9})})
    card_data = ModelCardData(
        {"license": "mit", **measured},
        {"Data": "Our mails.\n\n### Whose\n\nOurs.", "Thanks": "All."},
    )
    kb.save(model, tmp_path / "native", card=card_data)
    there = convert(tmp_path / "native", tmp_path / "there", "--to", "huggingface")
    assert there == make_card(model, "transformers", card_data)
    back = convert(tmp_path / "there", tmp_path / "back", "--to", "native")
    assert back == (tmp_path / "native" / "README.md").read_text()
    kb.save(kb.load(tmp_path / "native"), tmp_path / "again")  # it may have been trained since
    assert (tmp_path / "again" / "README.md").read_text() == make_card(model)
    options = ["--to", "native", "--task", "embedder"]
    embedder = convert(tmp_path / "native", tmp_path / "embedder", *options)
    assert ModelCard(embedder).data.license == "mit"
    assert "mails" not in embedder


def test_converting_takes_the_limits_along_that_somebody_told(tmp_path):
    card_data = ModelCardData({"license": "mit"}, {"Limits": "- It cannot tell irony."})
    kb.save(classifier(), tmp_path / "told", card=card_data)
    written = convert(tmp_path / "told", tmp_path / "written", "--to", "huggingface")
    assert written == make_card(classifier(), "transformers", card_data)
    kb.save(classifier(), tmp_path / "by-hand")
    readme = tmp_path / "by-hand" / "README.md"
    readme.write_text(readme.read_text().replace("## Limits\n\n", "## Limits\n\n- No irony.\n"))
    written = convert(tmp_path / "by-hand", tmp_path / "again", "--to", "native")
    assert "## Limits\n\n- No irony.\n- Texts of more than 16 tokens" in written


FRONT = "---\nlicense: apache-2.0\nlanguage: {}\nlibrary_name: x\n---\n# Theirs\n\n## Data\n\nWeb."


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        (FRONT.format("[en, de]"), {"license": "apache-2.0", "language": ["en", "de"]}),
        (FRONT.format("no"), {"license": "apache-2.0"}),  # which YAML takes for false
        (FRONT.format("[no, en]"), {"license": "apache-2.0"}),
        (FRONT.format("[]"), {"license": "apache-2.0"}),
        ("---\na: " + "[" * 5000 + "\n---\n", {}),
        ("# Nothing for the hub\n", {}),
        ("---\n- a\n- list\n---\n", {}),
        ("---\nopen: [\n---\n", {}),
        ("---\n---\n", {}),
        (b"\xff\xfe", {}),
        (None, {}),
    ],
)
def test_of_other_cards_licence_and_language_are_taken(text, metadata, tmp_path):
    if text is not None:
        (tmp_path / "README.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert read_card_data(tmp_path) == ModelCardData(metadata, {})
    assert read_card_data(tmp_path / "README.md") == ModelCardData({}, {})  # no directory
