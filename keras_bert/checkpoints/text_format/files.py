"""What the files of a tokenizer of Hugging Face's transformers say, whatever its kind."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_bert.checkpoints.json_files import read_json_if_there
from keras_bert.errors import CheckpointError
from keras_bert.families import FAMILIES
from keras_bert.text.loading import usual_special_tokens

TOKENIZER, OPTIONS = "tokenizer.json", "tokenizer_config.json"
SPECIAL_TOKENS, ADDED = "special_tokens_map.json", "added_tokens.json"
CONFIGURATION = "config.json"

SPECIAL_TOKEN_NAMES = {  # our role to their key
    "pad": "pad_token",
    "unknown": "unk_token",
    "cls": "cls_token",
    "separator": "sep_token",
    "mask": "mask_token",
}
GENERIC = "PreTrainedTokenizerFast"
_NO_CLASS_OF_ITS_OWN = (GENERIC, "PreTrainedTokenizer", "TokenizersBackend")


class OtherTokenizerError(Exception):
    """A tokenizer that cannot be expressed here; the message says what it has."""


@dataclasses.dataclass(frozen=True)
class TextFiles:
    """The files of a directory; an empty dictionary for one that is missing."""

    directory: Path
    options: Mapping[str, Any]
    """`tokenizer_config.json`."""
    tokenizer: Mapping[str, Any]
    """`tokenizer.json`."""
    special: Mapping[str, Any]
    """`special_tokens_map.json`."""
    added: Mapping[str, Any]
    """`added_tokens.json`."""
    configuration: Mapping[str, Any]
    """`config.json` of the model."""

    @classmethod
    def read(cls, directory: Path) -> "TextFiles":
        """Reads them.

        Raises:
            CheckpointError: if one is damaged.
        """
        names = (OPTIONS, TOKENIZER, SPECIAL_TOKENS, ADDED, CONFIGURATION)
        return cls(directory, *(read_json_if_there(directory / name) for name in names))

    @property
    def complete(self) -> bool:
        """Whether `tokenizer.json` alone says how text is split, not a class of transformers."""
        return self.options.get("tokenizer_class") in _NO_CLASS_OF_ITS_OWN

    @functools.cached_property
    def family(self) -> ModuleType | None:
        """The family whose tokenizer this is, by its class, else by the model's type.

        Raises:
            OtherTokenizerError: for a class that belongs to none.
        """
        name = self.options.get("tokenizer_class")
        if name is None or self.complete:
            return FAMILIES.get(str(self.configuration.get("model_type")))
        name = str(name).removesuffix("Fast")
        for family in FAMILIES.values():
            if name == f"{family.HUGGING_FACE_CLASS}Tokenizer":
                return family
        raise OtherTokenizerError(f"{self.directory / OPTIONS} names the class {name!r}")

    def part(self, name: str) -> dict[str, Any]:
        """An object in `tokenizer.json`; an empty one where it is missing."""
        value = self.tokenizer.get(name)
        return value if isinstance(value, dict) else {}

    def steps(self, name: str) -> list[dict[str, Any]]:
        """The parts of a sequence in `tokenizer.json` (normalizer, pre_tokenizer, ...)."""
        return list(_flat(self.part(name)))

    def special_tokens(self, kind: str, tokens: Mapping[str, int]) -> dict[str, str]:
        """Special tokens by role: those that the files name, else the usual ones.

        Raises:
            CheckpointError: if one is not a string.
        """
        text = getattr(self.family, "TEXT", {})
        usual = text["special_tokens"] if text.get("tokenizer") == kind else None
        named = {**self.options, **self.special}
        return {**(usual or usual_special_tokens(tokens))} | {
            ours: self._content(theirs, named[theirs])
            for ours, theirs in SPECIAL_TOKEN_NAMES.items()
            if named.get(theirs) is not None
        }

    def with_added(self, ids: Mapping[Any, Any], mask: str) -> list[str]:
        """Tokens in the order of their ids: those of a vocabulary, and those added after it.

        As in transformers, the mask comes last where neither has it.

        Raises:
            CheckpointError: if an id is missing.
        """
        tokens = {index: token for token, index in ids.items() if isinstance(index, int)}
        whole = sorted(tokens) == list(range(len(ids)))
        for token, index in self._added():
            if token not in ids:
                tokens.setdefault(index, token)
        if not whole or sorted(tokens) != list(range(len(tokens))):
            raise CheckpointError(
                f"{self.directory}: the ids of the tokenizer's vocabulary are not 0, 1, 2, ..."
            )
        if mask not in tokens.values():
            tokens[len(tokens)] = mask
        return [tokens[index] for index in range(len(tokens))]

    def _added(self) -> Iterator[tuple[str, int]]:
        listed = self.tokenizer.get("added_tokens")
        for token in listed if isinstance(listed, list) else ():
            yield token["content"], token["id"]
        decoder = self.options.get("added_tokens_decoder")
        for index, token in (decoder if isinstance(decoder, dict) else {}).items():
            yield token["content"], int(index)
        yield from self.added.items()

    def mask_takes_space(self, mask: str, default: bool) -> bool:
        """Whether the mask token is one that takes the white space before it along (lstrip)."""
        decoder = self.options.get("added_tokens_decoder")
        listed = self.tokenizer.get("added_tokens")
        places = [
            self.options.get("mask_token"),
            *(decoder.values() if isinstance(decoder, dict) else ()),
            self.special.get("mask_token"),
            *(listed if isinstance(listed, list) else ()),
        ]
        for token in places:
            if isinstance(token, dict) and token.get("content") == mask and "lstrip" in token:
                return bool(token["lstrip"])
        return default

    def separators_in_pair(self, separator: str) -> int:
        """How many separators stand between the texts of a pair."""
        for processor in self.steps("post_processor"):
            if processor.get("type") == "RobertaProcessing":
                return 2
            if processor.get("type") == "TemplateProcessing":
                names = [inner.get("id") for part in processor["pair"] for inner in part.values()]
                between = names[names.index("A") : names.index("B")]
                return max(between.count(separator), 1)
        return getattr(self.family, "TEXT", {}).get("separators_in_pair", 1)

    def num_segments(self, separators_in_pair: int) -> int:
        """The number of segment ids that the model knows."""
        if separators_in_pair > 1:
            return 1
        model = FAMILIES.get(str(self.configuration.get("model_type")), self.family)
        traits = getattr(model, "TRAITS", {})
        return self.configuration.get("type_vocab_size", traits.get("num_segments", 2))

    def flag(self, source: Mapping[str, Any], name: str, default: bool | None) -> Any:
        """An option that is true, false or missing.

        Raises:
            CheckpointError: if it is something else.
        """
        value = source.get(name)
        if not isinstance(value, bool | None):
            raise CheckpointError(
                f"{self.directory}: the tokenizer's {name} is {value!r}, not true or false."
            )
        return default if value is None else value

    def _content(self, name: str, token: Any) -> str:
        """A special token stands as a string or as an object with its content."""
        token = token.get("content") if isinstance(token, dict) else token
        if not isinstance(token, str):
            raise CheckpointError(
                f"{self.directory}: the tokenizer's {name} is {token!r}, not a string."
            )
        return token


def _flat(part: Any) -> Iterator[dict[str, Any]]:
    if not part or not isinstance(part, dict):
        return
    parts = next((part[key] for key in _SEQUENCES if isinstance(part.get(key), list)), None)
    if part.get("type") != "Sequence" or parts is None:
        yield part
        return
    for inner in parts:
        yield from _flat(inner)


_SEQUENCES = ("normalizers", "pretokenizers", "processors", "decoders")
