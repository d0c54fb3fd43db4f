"""Attribution of a classifier's answer to the tokens of a text, by integrated gradients."""

import html
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_bert.atomic import replace_file
from keras_bert.errors import InputError, closest
from keras_bert.optimizers.gradients import gradient
from keras_bert.surrogates import without_surrogates
from keras_bert.tasks.classifier import SequenceClassifier
from keras_bert.visualize.tokens import Token, tokens_of

_FOR, _AGAINST = "47, 111, 208", "194, 86, 12"  # red, green and blue
_LARGEST_GAP = 0.05  # of the logits' difference, without a warning

logger = logging.getLogger(__name__)


def write_page(path: str | os.PathLike, page: str) -> None:
    """Writes a page as one file.

    Raises:
        InputError: if the folder does not exist.
        StorageError: if a file cannot be written.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise InputError(f"Cannot write {path}: there is no folder {folder}; create it first.")
    replace_file(path, page)


@dataclass(frozen=True, eq=False)
class Attribution:
    """Contribution of each token to a label's logit. A notebook shows the object as a colored text.

    Args:
        label: the label.
        score: probability of the label, or the number that a regression predicts.
        texts: one text, or two.
        tokens: the T tokens.
        values: attributions `[T]` float32. Positive values speak for the label. The value of a
            special token is 0.
        logit: logit of the label.
        baseline_logit: logit of the label if all tokens of the texts are masked. The sum of
            `values` is `logit - baseline_logit`, except for the error of the numerical integral.
        num_cut: number of tokens that were cut off, because the text was too long.
    """

    label: str
    score: float
    texts: tuple[str, ...]
    tokens: tuple[Token, ...]
    values: np.ndarray = field(repr=False)
    logit: float
    baseline_logit: float
    num_cut: int = 0

    def save(self, path: str | os.PathLike) -> None:
        """Writes the colored text as a page, in one file.

        Raises:
            InputError: if the folder does not exist.
            StorageError: if a file cannot be written.
        """
        head = '<!doctype html><meta charset="utf-8" /><title>Attribution</title>'
        style = "<style>:root { color-scheme: light dark; margin: 1rem; }</style>"
        write_page(path, f"{head}{style}\n{self.to_html()}\n")

    def to_html(self) -> str:
        """Returns the colored text as an element of HTML, without scripts."""
        largest = float(np.abs(self.values).max(initial=0.0)) or 1.0
        lines = [
            _line(text, self._spans(number), largest) for number, text in enumerate(self.texts)
        ]
        cut = f" {self.num_cut} tokens were cut off." if self.num_cut else ""
        legend = (
            f"{_marked('for', _FOR, 0.6)} or {_marked('against', _AGAINST, 0.6)} "
            f"<b>{html.escape(self.label)}</b> ({self.score:.3f}). The values add up to the logit, "
            f"{self.logit:.2f}, minus the logit of the masked text, {self.baseline_logit:.2f}.{cut}"
        )
        style = "font-family: system-ui, sans-serif; line-height: 1.8"
        small = f'<div style="font-size: 85%; opacity: 0.8">{legend}</div>'
        element = f'<div class="attribution" style="{style}">{"".join(lines)}{small}</div>'
        return without_surrogates(element)  # no file can hold them

    def _repr_html_(self) -> str:
        return self.to_html()

    def _spans(self, number: int) -> list[tuple[int, int, float]]:
        """Returns start, end and value of the parts of a text, in order and without overlap."""
        spans: list[tuple[int, int, float]] = []
        for token, value in zip(self.tokens, self.values.tolist(), strict=True):
            if token.segment != number or token.end == 0:
                continue
            before = spans[-1][1] if spans else 0
            if token.end > before:
                spans.append((max(token.start, before), token.end, value))
            else:  # several tokens can belong to one character
                start, end, sum_ = spans.pop()
                spans.append((start, end, sum_ + value))
        return spans


def attribution(
    model: Any,
    text: str,
    second_text: str | None = None,
    *,
    label: str | None = None,
    steps: int = 64,
    sequence_length: int | None = None,
    batch_size: int = 16,
) -> Attribution:
    """Attributes the logit of a label to the tokens of a text, by integrated gradients.

    Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365. The gradients are taken at the
    output of the embedding layer, and summed over its width. They are integrated along a straight
    line from the baseline, where all tokens of the texts are replaced by the mask token, to the
    text. Special tokens stay.

    Args:
        model: a `SequenceClassifier` with a preprocessor.
        text: the text.
        second_text: the second text of a pair.
        label: name of the label. By default, the label with the highest logit.
        steps: number of points of the integral (Gauss-Legendre quadrature).
        sequence_length: number of tokens that longer texts are cut to. By default, the
            preprocessor's.
        batch_size: points per step.

    Returns:
        The value of each token, and the colored text. If the values miss the difference of the
        logits by more than 5 %, a warning is logged.

    Raises:
        InputError: if the model is not such a classifier, it has no such label, `steps` is less
            than 1, a text is empty, or the logits are not finite.

    Example:
        >>> found = visualize.attribution(classifier, "The plot is clever.")
        >>> for token, value in zip(found.tokens, found.values):
        ...     print(f"{token.text:10}{value:+.2f}")
    """
    if not isinstance(model, SequenceClassifier):
        raise InputError(
            f"A {type(model).__name__} has no labels of texts to attribute to tokens; give a "
            "SequenceClassifier."
        )
    if label is not None and label not in model.labels:
        raise InputError(
            f"The model has no label {label!r}.{closest(label, model.labels)} Its labels are "
            f"{', '.join(map(repr, model.labels))}."
        )
    if steps < 1:
        raise InputError(f"steps is {steps}, but must be 1 or more.")
    texts = (text,) if second_text is None else (text, second_text)
    tokens, inputs, num_cut = tokens_of(model, texts, sequence_length)
    ends = np.concatenate([_masked(model, tokens, inputs), inputs["token_ids"]])
    both = {name: np.repeat(value, 2, axis=0) for name, value in inputs.items()}
    embeddings = model.encoder.embeddings(
        ends, both["segment_ids"], both["padding_mask"], training=False
    )
    start, end = ops.convert_to_numpy(ops.cast(embeddings, "float32"))  # [T, E] each
    logits = ops.convert_to_numpy(model({**both, "token_ids": ends}, training=False))
    if not np.isfinite(logits).all():
        raise InputError("The model's logits are not finite; its training has diverged.")
    index = int(logits[1].argmax()) if label is None else model.labels.index(label)

    def logit(points: Any) -> Any:
        """Returns the label's logit at embeddings `[B, T, E]`."""
        repeated = {name: np.repeat(x, len(points), axis=0) for name, x in inputs.items()}
        return model({**repeated, "embeddings": points}, training=False)[:, index]

    places, weights = np.polynomial.legendre.leggauss(steps)  # from -1 to 1
    mean = np.zeros(start.shape, "float64")
    for first in range(0, steps, batch_size):
        part = slice(first, first + batch_size)
        share = (places[part, None, None] + 1) / 2
        points = (start + share * (end - start)).astype("float32")
        mean += np.tensordot(weights[part] / 2, gradient(logit, points), axes=1)
    values = ((end - start) * mean).sum(axis=-1).astype("float32")
    baseline_logit, best_logit = map(float, logits[:, index])
    _check_sum(values.sum(), best_logit - baseline_logit, steps)
    score = float(ops.convert_to_numpy(model.scores(logits[1:]))[0, index])
    name = model.labels[index]
    return Attribution(name, score, texts, tokens, values, best_logit, baseline_logit, num_cut)


def _masked(
    model: SequenceClassifier, tokens: Sequence[Token], inputs: dict[str, np.ndarray]
) -> np.ndarray:
    """Returns token ids `[1, T]`, with the mask in place of each token that is not special.

    If the model was trained without a mask, takes the padding token.
    """
    vocabulary = (model.preprocessor or model.encoder.preprocessor).vocabulary
    mask = vocabulary.mask_id
    if mask >= model.config.vocabulary_size:
        mask = vocabulary.pad_id
    special = [token.special for token in tokens]
    return np.where(special, inputs["token_ids"], mask).astype("int32")


def _check_sum(total: float, difference: float, steps: int) -> None:
    if abs(total - difference) > _LARGEST_GAP * abs(difference):
        logger.warning(
            "The attributions add up to %.3f, but the logits differ by %.3f. Raise steps, which is "
            "%d, to integrate more exactly.",
            total,
            difference,
            steps,
        )


def _line(text: str, spans: list[tuple[int, int, float]], largest: float) -> str:
    """Returns a line of HTML with the parts of a text in colors."""
    parts, done = list[str](), 0
    for start, end, value in spans:
        parts.append(html.escape(text[done:start]))
        color = _FOR if value > 0 else _AGAINST
        parts.append(_marked(text[start:end], color, 0.75 * abs(value) / largest, f"{value:+.3f}"))
        done = end
    parts.append(html.escape(text[done:]))
    return f'<div dir="auto" style="white-space: pre-wrap">{"".join(parts)}</div>'


def _marked(text: str, color: str, strength: float, title: str = "") -> str:
    style = f"background: rgba({color}, {strength:.2f}); border-radius: 3px"
    shown = f' title="{title}"' if title else ""
    return f'<span style="{style}"{shown}>{html.escape(text)}</span>'
