"""Shows the attention of every head on a web page that needs no network."""

import base64
import html
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_bert.atomic import replace_file
from keras_bert.errors import InputError
from keras_bert.layers.encoder import INPUTS, Encoder

_LEVELS = 255  # a weight is stored as a byte in the page


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
    """

    title: str
    texts: tuple[str, ...]
    tokens: tuple[Token, ...]
    weights: np.ndarray = field(repr=False)
    num_cut: int = 0

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page as one file.

        Raises:
            InputError: if the folder does not exist.
            StorageError: if a file cannot be written.
        """
        folder = Path(path).parent
        if not folder.is_dir():
            raise InputError(f"Cannot write {path}: there is no folder {folder}; create it first.")
        replace_file(path, self.to_html())

    def to_html(self) -> str:
        """Returns the page as HTML."""
        data = {
            "title": self.title,
            "texts": self.texts,
            "tokens": [token._asdict() for token in self.tokens],
            "weights": [[_packed(head) for head in layer] for layer in self.weights],
            "cut": self.num_cut,
        }
        # Escape "<", so that no text can end the script element. json.dumps writes only ASCII.
        data_text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
        page = _file("attention.html")
        for name in ("theme.css", "attention.css"):
            link = f'<link rel="stylesheet" href="{name}" />'
            page = page.replace(link, f"<style>\n{_file(name)}</style>")
        script = f"<script>\n{_file('attention.js')}</script>"
        page = page.replace('<script src="attention.js"></script>', script)
        return page.replace(">null</script>", f">{data_text}</script>")

    def _repr_html_(self) -> str:
        # The page is a separate document that cannot access the notebook.
        style = "width: 100%; height: 760px; border: 0"
        return (
            f'<iframe title="Attention" sandbox="allow-scripts" style="{style}" '
            f'srcdoc="{html.escape(self.to_html())}"></iframe>'
        )


def attention(
    model: Any, text: str, second_text: str | None = None, *, sequence_length: int | None = None
) -> Attention:
    """Computes the attention of every head of a model for a text.

    Args:
        model: an `Encoder` or a task with a preprocessor.
        text: the text. It may contain `[MASK]`.
        second_text: the second text of a pair, which follows the separator.
        sequence_length: number of tokens that longer texts are cut to. By default, the
            preprocessor's.

    Returns:
        The attention weights, and the page.

    Raises:
        InputError: if the model has no attention or no preprocessor, a text is empty, the length
            exceeds the model's positions, or the weights are not finite.

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
    preprocessor = model.preprocessor or encoder.preprocessor
    if preprocessor is None:
        raise InputError(
            f"This {type(model).__name__} has no preprocessor, so it cannot take texts; give it "
            "one: model.preprocessor = keras_bert.Preprocessor(...)."
        )
    texts = (text,) if second_text is None else (text, second_text)
    for each in texts:
        if not isinstance(each, str):
            raise InputError(f"A text must be a string, not a {type(each).__name__}.")
    length = preprocessor.sequence_length if sequence_length is None else sequence_length
    tokens, inputs, num_cut = _prepare(preprocessor, texts, length)
    outputs = encoder(inputs, training=False, return_attentions=True)
    weights = np.stack(
        [ops.convert_to_numpy(ops.cast(x[0], "float32")) for x in outputs["attentions"]]
    )
    if not np.isfinite(weights).all():
        raise InputError("The model's attention is not finite; its training has diverged.")
    layers, heads = weights.shape[:2]
    size = f"{layers} layer{'s' * (layers > 1)} of {heads} head{'s' * (heads > 1)}"
    title = f"{type(model).__name__} ({encoder.config.family}), {size}"
    return Attention(title, texts, tokens, weights, num_cut)


def _prepare(
    preprocessor: Any, texts: Sequence[str], sequence_length: int
) -> tuple[tuple[Token, ...], dict[str, np.ndarray], int]:
    """Returns the tokens, the model's inputs `[1, T]`, and the number of tokens cut off."""
    batch = tuple([each] for each in texts)
    tokenizer, vocabulary = preprocessor.tokenizer, preprocessor.vocabulary
    sizes = [
        int(tokenizer.tokenize(each, allow_special_tokens=True).row_lengths()[0]) for each in batch
    ]
    for size, each, name in zip(sizes, texts, ("text", "second text"), strict=False):
        if not size:
            raise InputError(f"The {name}, {each[:50]!r}, has no token; write a word or more.")

    # Some families give both texts one segment id, but the page distinguishes the texts.
    apart = type(preprocessor)(
        tokenizer, sequence_length, separators_in_pair=preprocessor.separators_in_pair
    )
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


def _packed(weights: np.ndarray) -> str:
    """Encodes the weights `[T, T]` of a head as bytes, in base64."""
    return base64.b64encode(np.rint(weights * _LEVELS).astype(np.uint8).tobytes()).decode()


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
