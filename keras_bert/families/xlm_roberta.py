"""XLM-RoBERTa (Conneau et al. 2019, https://arxiv.org/abs/1911.02116): RoBERTa, other text."""

from typing import Any

from keras_bert.families import bert, roberta
from keras_bert.families.roberta import (  # noqa: F401
    HUGGING_FACE,
    HUGGING_FACE_CONFIG,
    HUGGING_FACE_FIXED,
    HUGGING_FACE_PREFIX,
    HUGGING_FACE_TASKS,
    OBJECTIVES,
    PRETRAINING,
    from_hugging_face,
    to_hugging_face,
)

TRAITS: dict[str, Any] = roberta.TRAITS | {"family": "xlm-roberta"}

PRESETS: dict[str, dict[str, Any]] = {
    "xlm_roberta_base": TRAITS | {"vocabulary_size": 250002} | bert.sizes(12, 768),
    "xlm_roberta_large": TRAITS | {"vocabulary_size": 250002} | bert.sizes(24, 1024),
}

TEXT: dict[str, Any] = roberta.TEXT | {"tokenizer": "sentencepiece"}

HUGGING_FACE_CLASS = "XLMRoberta"
