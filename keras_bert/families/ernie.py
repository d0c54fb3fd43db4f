"""ERNIE 1.0 and 2.0 (Sun et al. 2019, https://arxiv.org/abs/1907.12412).

BERT with other pretraining. Models with embeddings of tasks (`use_task_id`) are not read.
"""

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
HUGGING_FACE_CONFIG = bert.HUGGING_FACE_CONFIG
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS
HUGGING_FACE_FIXED: dict[str, Any] = {"use_task_id": False}

HUGGING_FACE = tuple(
    (kind, ours, theirs.replace("bert.", "ernie.", 1)) for kind, ours, theirs in bert.HUGGING_FACE
)
HUGGING_FACE_TASKS = bert.HUGGING_FACE_TASKS
