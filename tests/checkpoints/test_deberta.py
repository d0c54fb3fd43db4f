"""DeBERTa's checkpoints as their authors published them, of which transformers reads a part."""

import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_bert as kb
from tests.checkpoints.huggingface import FIXTURES, check, reference, weights


def published(folder, tmp_path, extra, **configuration):
    """A fixture with the prefix, the tensors and the configuration of a published one."""
    path = tmp_path / "published"
    path.mkdir()
    tensors = weights(FIXTURES / folder)
    tensors = {
        n if n.startswith(("deberta.", "lm_predictions.")) else f"deberta.{n}": x
        for n, x in tensors.items()
    }
    generator = np.random.default_rng(0)
    for name, shape in extra.items():
        tensors[name] = generator.normal(0, 0.4, shape).astype("float32")
    save_file(tensors, path / "model.safetensors")
    values = json.loads((FIXTURES / folder / "config.json").read_text())
    for name in ("architectures", "legacy", "pooler_hidden_size", "tie_word_embeddings"):
        del values[name]
    values |= {"pos_att_type": "c2p|p2c"} | configuration
    (path / "config.json").write_text(json.dumps(values))
    return path


POSITIONS = {"deberta.embeddings.position_embeddings.weight": (16, 12)}
HEAD = {
    "lm_predictions.lm_head.dense.weight": (12, 12),
    "lm_predictions.lm_head.dense.bias": (12,),
    "lm_predictions.lm_head.LayerNorm.weight": (12,),
    "lm_predictions.lm_head.LayerNorm.bias": (12,),
    "lm_predictions.lm_head.bias": (40,),
}
DETECTOR = {
    "mask_predictions.dense.weight": (12, 12),
    "mask_predictions.dense.bias": (12,),
    "mask_predictions.LayerNorm.weight": (12,),
    "mask_predictions.LayerNorm.bias": (12,),
    "mask_predictions.classifier.weight": (1, 12),
    "mask_predictions.classifier.bias": (1,),
}


@pytest.mark.parametrize("folder", ["deberta-masked-lm", "deberta-v2-masked-lm"])
def test_masked_lm_with_its_decoder(folder, tmp_path, caplog):
    path = published(folder, tmp_path, POSITIONS)
    model = kb.load(path)
    assert isinstance(model, kb.MaskedLanguageModel)
    assert model.enhanced
    assert not caplog.records
    kb.save(model, tmp_path / "native")
    kb.save(kb.load(tmp_path / "native"), tmp_path / "again", format="huggingface")
    assert "without the enhanced mask decoder" in caplog.text
    before, after = weights(path), weights(tmp_path / "again")
    assert set(before) == set(after)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    inputs, outputs, _ = reference(folder)
    tokens = inputs["padding_mask"] == 1
    assert np.array_equal(model(inputs), kb.load(tmp_path / "again")(inputs))
    assert not np.allclose(model(inputs)[tokens], outputs["logits"][tokens], atol=0.1)
    check(kb.load(path, enhanced=False), folder)  # as transformers computes it


def test_third_version_detects_replaced_tokens(tmp_path, caplog):
    folder = "deberta-v2-model-third-version"
    path = published(folder, tmp_path, POSITIONS | HEAD | DETECTOR)
    model = kb.load(path)
    assert isinstance(model, kb.ReplacedTokenDetector)
    assert "deberta.embeddings.position_embeddings.weight" in caplog.text  # not used

    inputs, outputs, _ = reference(folder)
    x = outputs["last_hidden_state"].astype("float64")
    head = {n.split(".", 1)[1]: t for n, t in load_file(path / "model.safetensors").items()}
    x = x + x[:, :1]
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-7)
    x = x * head["LayerNorm.weight"] + head["LayerNorm.bias"]
    x = x @ head["dense.weight"].T + head["dense.bias"]
    x = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    expected = x @ head["classifier.weight"][0] + head["classifier.bias"]
    tokens = inputs["padding_mask"] == 1
    np.testing.assert_allclose(model(inputs).numpy()[tokens], expected[tokens], atol=1e-5)

    kb.save(model, tmp_path / "again", format="huggingface")
    after = weights(tmp_path / "again")
    assert set(weights(path)) - set(after) == set(POSITIONS | HEAD)
    assert np.array_equal(model(inputs), kb.load(tmp_path / "again")(inputs))


def test_other_tasks_from_a_published_file(tmp_path):
    folder = "deberta-v2-model-third-version"
    path = published(folder, tmp_path, POSITIONS | HEAD | DETECTOR, attention_head_size=4)
    check(kb.load(path, task="encoder"), folder)
    model = kb.load(path, task="classifier", labels=["no", "yes"])
    assert model.config.classifier_activation == "gelu"
    assert not model.config.pooler
    kb.save(model, tmp_path / "theirs", format="huggingface")
    assert "pooler.dense.weight" in weights(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"relative_attention": False}, "without relative_attention"),
        ({"attention_head_size": 5}, "attention_head_size 5"),
        ({"pos_att_type": ["c2c"]}, "position_terms"),
        ({"pos_att_type": 7}, "config.json"),
        ({"position_buckets": 5}, "position_buckets is 5"),
        ({"position_buckets": "many"}, "config.json"),
        ({"conv_groups": 2}, "conv_groups 2 is not supported"),
        ({"conv_kernel_size": 2}, "convolution_size is 2"),
        ({"norm_rel_ebd": 1}, "config.json"),
        ({"pooler_hidden_act": "mish"}, "pooler_hidden_act 'mish'"),
        ({"max_relative_positions": "far"}, "config.json"),
        ({"share_att_key": "no"}, "shared_position_keys"),
        ({"share_att_key": False}, "lacks the tensor .*pos_key_proj.weight"),
    ],
)
def test_what_is_not_supported_is_named(configuration, message, tmp_path):
    path = published("deberta-v2-model-third-version", tmp_path, {}, **configuration)
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(path)
