"""ERNIE 1.0 to 3.0 (Sun et al. 2019, https://arxiv.org/abs/1907.12412).

BERT with other pretraining. With `use_task_id`, as in files of ERNIE 2.0 and 3.0, each token gets
the embedding of a pretraining task. Here, this is always the first task, as in transformers without
`task_type_ids`.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import bert

TRAITS: dict[str, Any] = {"family": "ernie"}

PRESETS: dict[str, dict[str, Any]] = {
    "ernie_v2_base": TRAITS | {"vocabulary_size": 30522} | bert.sizes(12, 768),
    "ernie_v2_large": TRAITS | {"vocabulary_size": 30522} | bert.sizes(24, 1024),
}

TEXT: dict[str, Any] = bert.TEXT

OBJECTIVES = ("mlm", "mlm+nsp")

PRETRAINING: dict[str, Any] = bert.PRETRAINING | {"masking": "word"}

FINE_TUNING_RATES = bert.FINE_TUNING_RATES

HUGGING_FACE_CLASS = "Ernie"
HUGGING_FACE_PREFIX = "ernie."
HUGGING_FACE_CONFIG = bert.HUGGING_FACE_CONFIG | {"num_task_types": "task_type_vocab_size"}
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS | {"task_type_vocab_size": 3}


def from_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the values of `config.json` to values of an `EncoderConfig`, under their names."""
    used = values.get("use_task_id", False)
    return {**values, "task_type_vocab_size": values["task_type_vocab_size"] if used else 0}


def to_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration with transformers' values."""
    count = values["task_type_vocab_size"]
    return {**values, "task_type_vocab_size": count or 3, "use_task_id": count > 0}


HUGGING_FACE = (
    *(
        (kind, ours, theirs.replace("bert.", "ernie.", 1))
        for kind, ours, theirs in bert.HUGGING_FACE
    ),
    ("table", "encoder/embeddings/task_embedding", "ernie.embeddings.task_type_embeddings"),
)
HUGGING_FACE_TASKS = bert.HUGGING_FACE_TASKS
