"""The model cards of runs: they tell what the runs did."""

import csv
import json
import re

import pytest
import yaml
from huggingface_hub import ModelCard

import keras_bert as kb
from keras_bert.options import flatten
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.training.model_card import pretraining_card_data
from keras_bert.pretraining.training.run_log import read_log


def sections(card):
    _, *parts = re.split(r"^## (.*)$", card.text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def read_block(text):
    return yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])


def read_table(text):
    """Column to row to number."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    (_, *names), _, *rows = filter(None, rows)
    return {
        name: {row[0]: float(row[place]) for row in rows if row[place]}
        for place, name in enumerate(names, 1)
    }


def test_of_a_fine_tuned_model(small):
    card = ModelCard.load(small / "tuned/model/README.md")
    told = sections(card)
    metrics = json.loads((small / "tuned/metrics.json").read_text())
    assert read_block(told["Recipe"]) == metrics["recipe"]
    assert read_table(told["Metrics"]) == {
        "validation": pytest.approx(metrics["validation"], abs=1e-4)
    }
    assert f"After epoch {metrics['best_epoch']} of 2," in told["Metrics"]
    data = read_block(told["Data"])
    with (small / "opinions.csv").open() as file:
        assert sum(part["examples"] for part in data.values()) == len(list(csv.DictReader(file)))
    assert {part["file"] for part in data.values()} == {"opinions.csv"}
    assert data.keys() == {"training", "validation"}
    (accuracy,) = [r for r in card.data.eval_results if r.metric_type == "accuracy"]
    assert accuracy.metric_value == pytest.approx(metrics["validation"]["accuracy"], abs=1e-4)
    assert card.data.metrics == ["accuracy", "f1", "matthews_correlation"]
    assert read_block(told["Labels"]) == ["blame", "praise"]
    assert "Not recorded here: license, languages.\n" in told["Limits"]


@pytest.mark.parametrize("place", ["model", "checkpoints/step-00000006"])
def test_of_a_pretrained_model(small, place):
    card = ModelCard.load(small / "run" / place / "README.md")
    told = sections(card)
    recipe, data = read_block(told["Recipe"]), read_block(told["Data"])
    stored = json.loads((small / "run/pretraining.json").read_text())["config"]
    config = flatten(PretrainingConfig, stored)
    assert recipe == {name: config[name] for name in recipe} | {"schedule.steps": 6}
    assert recipe.keys() >= {
        "objective.name",
        "data.masking",
        "schedule.batch_size",
        "optimizer.learning_rate",
        "seed",
    }
    assert (data["data.corpus"], data["data.vocabulary"]) == (["text.txt"], "vocab.txt")
    assert str(small) not in card.content
    last = {row["event"]: row for row in read_log(small / "run/log.jsonl")}
    shown = read_table(told["Metrics"])
    for column, event in (("training", "train"), ("held-out", "validation")):
        assert shown[column]["step"] == 6
        assert shown[column]["mlm_loss"] == pytest.approx(last[event]["mlm_loss"], abs=1e-4)
    found = {r.metric_name: r.metric_value for r in card.data.eval_results}
    assert found["mlm_perplexity"] == pytest.approx(last["validation"]["mlm_perplexity"], abs=1e-4)


def test_measures_of_an_earlier_step_are_not_the_models(small):
    config = PretrainingConfig.from_dict(
        json.loads((small / "run/pretraining.json").read_text())["config"]
    )
    rows = {row["event"]: row for row in read_log(small / "run/log.jsonl")}
    measured = {"training": rows["train"], "held-out": rows["validation"]}
    run = {"base_model": None, "steps": 9, "examples": 10, "measured": measured}
    model = kb.load(small / "run/model")
    assert pretraining_card_data(model, config, step=6, **run).metadata["metrics"]
    later = pretraining_card_data(model, config, step=8, **run)
    assert later.metadata == {}
    assert "at step 8 of 9" in later.sections["Metrics"]
    assert read_table(later.sections["Metrics"])["held-out"]["step"] == 6


def test_measures_of_a_generator_are_not_the_models(small):
    options = json.loads((small / "run/pretraining.json").read_text())["config"]
    config = PretrainingConfig.from_dict(
        options | {"objective": {"name": "rtd"}, "model": {"family": "electra"}}
    )
    held_out = {"mlm_accuracy": 0.2, "mlm_perplexity": 9.0, "rtd_accuracy": 0.9, "loss": 7.0}
    card_data = pretraining_card_data(
        kb.ReplacedTokenDetector(kb.load(small / "run/model", task="encoder")),
        config,
        base_model=None,
        step=6,
        steps=6,
        examples=10,
        measured={"training": None, "held-out": {"step": 6, **held_out}},
    )
    assert read_table(card_data.sections["Metrics"])["held-out"] == {
        "step": 6,
        "mlm_accuracy (generator)": 0.2,
        "mlm_perplexity (generator)": 9.0,
        "rtd_accuracy": 0.9,
        "loss": 7.0,
    }
    (result,) = card_data.metadata["model-index"][0]["results"]
    assert [metric["name"] for metric in result["metrics"]] == ["rtd_accuracy"]


def test_the_model_that_came_from_the_hub_is_named(small, tmp_path, run, monkeypatch):
    monkeypatch.setattr("keras_bert.checkpoints.download", lambda name: small / "run/model")
    options = ["--train", "opinions.csv", "--output", tmp_path / "out", "--epochs", "1"]
    assert run("finetune", "--model", "someone/some-bert", *options).code == 0
    assert ModelCard.load(tmp_path / "out/model/README.md").data.base_model == "someone/some-bert"
