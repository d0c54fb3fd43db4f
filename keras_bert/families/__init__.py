"""The families: each file is data. Importing this package makes their presets known.

The keys are the `family` of an `EncoderConfig`, which is also the `model_type` of Hugging Face's
transformers.
"""

import importlib
from types import ModuleType

from keras_bert.config import EncoderConfig, register_presets

_FILES = (
    "bert",
    "roberta",
    "xlm_roberta",
    "camembert",
    "distilbert",
    "albert",
    "electra",
    "deberta",
    "deberta_v2",
)

FAMILIES: dict[str, ModuleType] = {
    family.TRAITS["family"]: family
    for family in (importlib.import_module(f"{__name__}.{file}") for file in _FILES)
}

for _family in FAMILIES.values():
    register_presets(_family.PRESETS)

__all__ = ["FAMILIES", "EncoderConfig"]
