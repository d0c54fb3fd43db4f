"""Shows the attention of every head on a web page that needs no network."""

import base64
import html
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.visualize.attribution_page import Attribution, attribution, write_page
from keras_bert.visualize.tokens import Token, tokens_of

_LEVELS = 255  # a weight is stored as a byte in the page


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention of every head of a model for a text. A notebook shows the object as a page.

    Args:
        title: title of the page, which describes the model.
        texts: one text, or two.
        tokens: the T tokens.
        weights: attention `[L, N, T, T]` float32 of L layers and N heads. Rows are the attending
            tokens, and each row sums to 1.
        num_cut: number of tokens that were cut off, because the text was too long.
        attribution: attribution of a classifier's answer to the tokens, which the page shows, too.
    """

    title: str
    texts: tuple[str, ...]
    tokens: tuple[Token, ...]
    weights: np.ndarray = field(repr=False)
    num_cut: int = 0
    attribution: Attribution | None = None

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page as one file.

        Raises:
            InputError: if the folder does not exist.
            StorageError: if a file cannot be written.
        """
        write_page(path, self.to_html())

    def to_html(self) -> str:
        """Returns the page as HTML."""
        data = {
            "title": self.title,
            "texts": self.texts,
            "tokens": [token._asdict() for token in self.tokens],
            "weights": [[_packed(head) for head in layer] for layer in self.weights],
            "cut": self.num_cut,
            "start": _strongest(self.weights, self.tokens),
        }
        # Escape "<", so that no text can end the script element. json.dumps writes only ASCII.
        data_text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
        page = _file("attention.html")
        for name in ("theme.css", "attention.css"):
            link = f'<link rel="stylesheet" href="{name}" />'
            page = page.replace(link, f"<style>\n{_file(name)}</style>")
        script = f"<script>\n{_file('attention.js')}</script>"
        page = page.replace('<script src="attention.js"></script>', script)
        page = page.replace(">null</script>", f">{data_text}</script>")
        colored = "" if self.attribution is None else self.attribution.to_html()
        return page.replace('<div id="texts"></div>', f'<div id="texts"></div>{colored}', 1)

    def _repr_html_(self) -> str:
        # The page is a separate document that cannot access the notebook.
        style = "width: 100%; height: 760px; border: 0"
        return (
            f'<iframe title="Attention" sandbox="allow-scripts" style="{style}" '
            f'srcdoc="{html.escape(self.to_html())}"></iframe>'
        )


def attention(
    model: Any,
    text: str,
    second_text: str | None = None,
    *,
    sequence_length: int | None = None,
    with_attribution: bool = False,
) -> Attention:
    """Computes the attention of every head of a model for a text.

    Args:
        model: an `Encoder` or a task with a preprocessor.
        text: the text. It may contain `[MASK]`.
        second_text: the second text of a pair, which follows the separator.
        sequence_length: number of tokens that longer texts are cut to. By default, the
            preprocessor's.
        with_attribution: whether the page also shows `attribution` for the best label of a
            `SequenceClassifier`.

    Returns:
        The attention weights, and the page.

    Raises:
        InputError: if the model has no attention or no preprocessor, a text is empty, the length
            exceeds the model's positions, the weights are not finite, or the attribution is for
            another kind of model.

    Example:
        >>> page = visualize.attention(model, "She sat by the river bank.")
        >>> page.weights.shape
        (6, 12, 9, 9)
        >>> page.save("page.html")
    """
    encoder = getattr(model, "encoder", model)
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"A {type(model).__name__} has no attention to show; give an Encoder or a task of "
            "keras_bert."
        )
    texts = (text,) if second_text is None else (text, second_text)
    tokens, inputs, num_cut = tokens_of(model, texts, sequence_length)
    outputs = encoder(inputs, training=False, return_attentions=True)
    weights = np.stack(
        [ops.convert_to_numpy(ops.cast(x[0], "float32")) for x in outputs["attentions"]]
    )
    if not np.isfinite(weights).all():
        raise InputError("The model's attention is not finite; its training has diverged.")
    layers, heads = weights.shape[:2]
    size = f"{layers} layer{'s' * (layers > 1)} of {heads} head{'s' * (heads > 1)}"
    title = f"{type(model).__name__} ({encoder.config.family}), {size}"
    parts = None
    if with_attribution:
        parts = attribution(model, text, second_text, sequence_length=sequence_length)
    return Attention(title, texts, tokens, weights, num_cut, parts)


def _strongest(weights: np.ndarray, tokens: Sequence[Token]) -> str:
    """Returns the view to start with, as the end of an address: "layer=3&head=5&from=7".

    A token is strong in a head if it attends much to one other token. The view has the head whose
    tokens are the strongest on average, and its strongest token. Special tokens, punctuation and
    neighbors do not count: many heads attend to these whatever the text says (Clark et al. 2019,
    https://arxiv.org/abs/1906.04341).
    """
    words = [not token.special and any(map(str.isalnum, token.text)) for token in tokens]
    plain = np.flatnonzero(words)
    distant = np.abs(plain[:, None] - plain) > 1
    if not distant.any():
        return ""
    between = weights[:, :, plain[:, None], plain] * distant
    strengths = between.max(axis=-1)
    layer, head = np.unravel_index(strengths.mean(axis=-1).argmax(), weights.shape[:2])
    return f"layer={layer}&head={head}&from={plain[strengths[layer, head].argmax()]}"


def _packed(weights: np.ndarray) -> str:
    """Encodes the weights `[T, T]` of a head as bytes, in base64."""
    return base64.b64encode(np.rint(weights * _LEVELS).astype(np.uint8).tobytes()).decode()


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
