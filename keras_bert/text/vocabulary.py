"""Vocabulary: tokens in the order of their ids, and the special tokens by role."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass

from keras_bert.atomic import replace_file
from keras_bert.errors import InputError
from keras_bert.text.files import read_lines

CONTINUATION = "##"
"""Prefix of a piece that continues a word."""
ROLES = ("pad", "unknown", "cls", "separator", "mask")
"""Roles of special tokens."""

_USUAL = (  # special tokens by role: of BERT, RoBERTa, ALBERT
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    ("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
    ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
)

_NO_TEXT = re.compile("[\0\ud800-\udfff]")  # tf.text's operations end at NUL


@dataclass(frozen=True)
class Vocabulary:
    """Tokens `[V]`; a token's index is its id.

    Args:
        tokens: all tokens, in the order of their ids.
        pad: token for padding.
        unknown: token for text that has no token.
        cls: token before a text, for classification.
        separator: token after each text.
        mask: token in place of a token to predict.

    Raises:
        InputError: if a token is empty, is not valid text or occurs twice, or a special token is
            missing.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"])
        >>> vocabulary.id_of("cat"), vocabulary.mask_id
        (5, 4)
    """

    tokens: Sequence[str]
    _: KW_ONLY
    pad: str = "[PAD]"
    unknown: str = "[UNK]"
    cls: str = "[CLS]"
    separator: str = "[SEP]"
    mask: str = "[MASK]"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        special = tuple(self.special_tokens.values())
        _check(self.tokens, special, source="The vocabulary", item="token")

    @staticmethod
    def from_file(path: str | os.PathLike, **special_tokens: str) -> Vocabulary:
        """Reads a `vocab.txt`: UTF-8, with one token on each line.

        Args:
            path: the file.
            **special_tokens: special tokens by role, as in the constructor.

        Raises:
            InputError: as in the constructor. The message names the file and the line.
        """
        tokens = read_tokens(path)
        try:
            return Vocabulary(tokens, **special_tokens)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def save(self, path: str | os.PathLike) -> None:
        """Writes a `vocab.txt`, with one token on each line.

        Raises:
            InputError: if a token contains the end of a line.
        """
        several = next((t for t in self.tokens if "\n" in t or t.endswith("\r")), None)
        if several is not None:
            raise InputError(f"{path} has one token on each line, so it cannot hold {several!r}.")
        replace_file(path, "".join(f"{token}\n" for token in self.tokens))

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def id_of(self, token: str) -> int:
        """Returns the id of a token.

        Raises:
            InputError: if the token is not in the vocabulary.
        """
        if token not in self._ids:
            raise InputError(f"{token!r} is not one of the vocabulary's {len(self)} tokens.")
        return self._ids[token]

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    @property
    def special_tokens(self) -> dict[str, str]:
        """Special tokens by role. The roles are the names of the constructor's arguments."""
        return {role: getattr(self, role) for role in ROLES}

    @property
    def special_ids(self) -> tuple[int, ...]:
        """Ids of the special tokens: pad, unknown, cls, separator, mask."""
        return tuple(self.id_of(token) for token in self.special_tokens.values())

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return self.id_of(self.pad)

    @property
    def unknown_id(self) -> int:
        """Id of the unknown token."""
        return self.id_of(self.unknown)

    @property
    def cls_id(self) -> int:
        """Id of the classification token."""
        return self.id_of(self.cls)

    @property
    def separator_id(self) -> int:
        """Id of the separator token."""
        return self.id_of(self.separator)

    @property
    def mask_id(self) -> int:
        """Id of the mask token."""
        return self.id_of(self.mask)


def read_tokens(path: str | os.PathLike) -> tuple[str, ...]:
    """Returns the tokens `[V]` of a `vocab.txt`, whatever its special tokens.

    Raises:
        InputError: if a token is empty, is not valid text or occurs twice. The message names the
            file and the line.
    """
    tokens = tuple(read_lines(path))
    # A line of white space is empty, but not U+2028, which a real vocabulary has.
    lines = [token if token.strip(" \t\r\n") else "" for token in tokens]
    _check(lines, (), source=os.fspath(path), item="line", first=1)
    return tokens


def usual_special_tokens(tokens: Collection[str]) -> dict[str, str]:
    """Returns the special tokens of BERT, RoBERTa or ALBERT by role.

    Takes the first of these sets whose tokens, except the mask, are all among `tokens`, and
    otherwise BERT's set.
    """
    found = (usual for usual in _USUAL if all(token in tokens for token in usual[:4]))
    return dict(zip(ROLES, next(found, _USUAL[0]), strict=True))


def is_continuation(token: str) -> bool:
    """Returns whether a piece continues a word (`##ing`)."""
    return token.startswith(CONTINUATION) and len(token) > len(CONTINUATION)


def _check(
    tokens: Sequence[str], special: tuple[str, ...], *, source: str, item: str, first: int = 0
) -> None:
    seen: dict[str, int] = {}
    for number, token in enumerate(tokens, start=first):
        if not isinstance(token, str) or _NO_TEXT.search(token):
            raise InputError(f"{source} has {token!r} at {item} {number}: expected text.")
        if not token:
            raise InputError(f"{source} has an empty token at {item} {number}: remove it.")
        if token in seen:
            raise InputError(
                f"{source} has {token!r} twice, at {item} {seen[token]} and {item} {number}: "
                "remove one."
            )
        seen[token] = number
    missing = [token for token in special if token not in seen]
    if missing:
        raise InputError(
            f"{source} has no {' and no '.join(missing)}: add the special tokens, "
            "or pass the tokens to use in their place."
        )
