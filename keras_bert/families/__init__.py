"""The families: each file is data. Importing this package makes their presets known."""

from types import ModuleType

from keras_bert.config import EncoderConfig, register_presets
from keras_bert.families import bert

FAMILIES: dict[str, ModuleType] = {"bert": bert}

for _family in FAMILIES.values():
    register_presets(_family.PRESETS)

__all__ = ["FAMILIES", "EncoderConfig"]
