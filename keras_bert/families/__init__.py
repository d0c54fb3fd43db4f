"""The families: each file is data. Importing this package makes their presets known."""

from keras_bert.config import EncoderConfig, register_presets
from keras_bert.families import bert

for _family in (bert,):
    register_presets(_family.PRESETS)

__all__ = ["EncoderConfig"]
