"""Prediction of the tokens for the masks of a text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.tasks.registry import LANGUAGE_MODELS, task_of


def fill_mask(
    model: Any, texts: str | Sequence[str], top_k: int = 5, batch_size: int = 32
) -> list[list[list[dict[str, Any]]]]:
    """Returns the likeliest tokens for every mask (`[MASK]` or `<mask>`).

    Args:
        model: a `MaskedLanguageModel` or `PretrainingModel` with a preprocessor.
        texts: N texts with one mask or more each; a single text is a batch of one.
        top_k: number of tokens for each mask.
        batch_size: texts per step.

    Returns:
        For every text and every mask in the text, `top_k` dictionaries, the likeliest token first:
        `token`, as plain text, and `score`, the token's probability. If the vocabulary's tokens
        include the space before a word, `token` includes the space, too (" sat").

    Raises:
        InputError: if the model has no masked language model head, no preprocessor, or no mask in
            its vocabulary; if `top_k` is out of range; or if a text has no mask within the
            preprocessor's `sequence_length`.

    Example:
        >>> fill_mask(model, ["the [MASK] sat on the mat"])[0][0][0]
        {'token': 'cat', 'score': 0.31}
    """
    if task_of(model) not in LANGUAGE_MODELS:
        raise InputError(
            f"A {type(model).__name__} cannot fill masks; give a MaskedLanguageModel or a "
            "PretrainingModel."
        )
    if model.preprocessor is None:
        raise InputError("The model has no preprocessor, so it cannot take texts; give it one.")
    texts = [texts] if isinstance(texts, str) else texts
    vocabulary, readable = model.preprocessor.vocabulary, model.preprocessor.tokenizer.readable
    if vocabulary.mask_id >= (rows := model.encoder.config.vocabulary_size):
        raise InputError(
            f"The model was trained without {vocabulary.mask}: its vocabulary has {rows} tokens, "
            f"and none of them is {vocabulary.mask}; use a model whose vocabulary has it."
        )
    if not 1 <= top_k <= len(vocabulary):
        raise InputError(f"top_k is {top_k}, but must be from 1 to {len(vocabulary)}.")
    fillings: list[list[list[dict[str, Any]]]] = []
    for start in range(0, len(texts), batch_size):
        batch = list(texts[start : start + batch_size])
        inputs = model.preprocessor(batch, allow_special_tokens=True)
        inputs = {name: ops.convert_to_numpy(array) for name, array in inputs.items()}
        masks = [np.flatnonzero(row == vocabulary.mask_id) for row in inputs["token_ids"]]
        _check(batch, masks, model.preprocessor)
        for scores in _scores(model, inputs, masks):
            best = np.argsort(-scores, axis=-1, kind="stable")[:, :top_k]
            fillings.append(
                [
                    [{"token": readable(i), "score": float(row[i])} for i in ids]
                    for row, ids in zip(scores, best, strict=True)
                ]
            )
    return fillings


def _scores(model: Any, inputs: dict[str, np.ndarray], masks: list[np.ndarray]) -> list[np.ndarray]:
    """Returns probabilities float32 `[masks of the text, V]` for every text."""
    most = max(map(len, masks))
    positions = np.stack([np.pad(row, (0, most - len(row))) for row in masks]).astype("int32")
    outputs = model({**inputs, "masked_positions": positions}, training=False)  # [B, P, V]
    logits = outputs["mlm_logits"] if isinstance(outputs, dict) else outputs
    # The embedding may have more rows than the vocabulary has tokens.
    probabilities = ops.softmax(logits[..., : len(model.preprocessor.vocabulary)])
    rows = ops.convert_to_numpy(probabilities)
    return [row[: len(mask)] for row, mask in zip(rows, masks, strict=True)]


def _check(texts: Sequence[str], masks: list[np.ndarray], preprocessor: Any) -> None:
    for text, positions in zip(texts, masks, strict=True):
        if not len(positions):
            mask = preprocessor.vocabulary.mask
            raise InputError(
                f"There is no {mask} within the first {preprocessor.sequence_length} tokens of "
                f"{text[:50]!r}; write {mask} in place of the token to predict."
            )
