"""Tokens of a text with their characters, and the model's inputs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.configured import INPUTS


class Token(NamedTuple):
    """A token on the page.

    Args:
        text: the token's text (`##ing`, ` the`).
        segment: 0 for the first text, 1 for the second.
        special: whether the token is not part of a text (`[CLS]`, `[SEP]`).
        start: position of the token's first character in its text; 0 for a special token.
        end: position after the token's last character; 0 for a special token.
    """

    text: str
    segment: int
    special: bool
    start: int
    end: int


def tokens_of(
    model: Any, texts: Sequence[str], sequence_length: int | None = None
) -> tuple[tuple[Token, ...], dict[str, np.ndarray], int]:
    """Tokenizes a text or a pair of texts. Special tokens may be written in the texts.

    Args:
        model: an `Encoder` or a task with a preprocessor.
        texts: one text, or two.
        sequence_length: number of tokens that longer texts are cut to. By default, the
            preprocessor's.

    Returns:
        The T tokens, the model's inputs, int32 `[1, T]` each, and the number of tokens cut off.

    Raises:
        InputError: if the model has no preprocessor, or a text is not a string or has no token.
    """
    preprocessor = model.preprocessor or getattr(model, "encoder", model).preprocessor
    if preprocessor is None:
        raise InputError(
            f"This {type(model).__name__} has no preprocessor, so it cannot take texts; give it "
            "one: model.preprocessor = keras_bert.Preprocessor(...)."
        )
    for each in texts:
        if not isinstance(each, str):
            raise InputError(f"A text must be a string, not a {type(each).__name__}.")
    if sequence_length is None:
        sequence_length = preprocessor.sequence_length
    batch = tuple([each] for each in texts)
    tokenizer, vocabulary = preprocessor.tokenizer, preprocessor.vocabulary
    sizes = [
        int(tokenizer.tokenize(each, allow_special_tokens=True).row_lengths()[0]) for each in batch
    ]
    for size, each, name in zip(sizes, texts, ("text", "second text"), strict=False):
        if not size:
            raise InputError(f"The {name}, {each[:50]!r}, has no token; write a word or more.")

    # Some families give both texts one segment id, but the page distinguishes the texts.
    apart = type(preprocessor)(tokenizer, sequence_length, **preprocessor.separators)
    packed = apart(batch, allow_special_tokens=True, return_offsets=True)
    packed = {name: ops.convert_to_numpy(x)[0] for name, x in packed.items()}
    length = int(packed["padding_mask"].sum())
    around = (vocabulary.cls_id, vocabulary.separator_id)
    columns = (packed[n][:length].tolist() for n in ("token_ids", "segment_ids", "starts", "ends"))
    tokens = tuple(
        Token(tokenizer.readable(token), segment, token in around and not end, start, end)
        for token, segment, start, end in zip(*columns, strict=True)
    )
    packed["segment_ids"] = np.minimum(packed["segment_ids"], max(preprocessor.num_segments - 1, 0))
    inputs = {name: packed[name][np.newaxis, :length] for name in INPUTS}
    return tokens, inputs, sum(sizes) + sum(token.special for token in tokens) - length
