"""Content of transformers' tokenizer files that does not depend on the kind of tokenizer."""

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_bert.checkpoints.files import read_json_if_there
from keras_bert.errors import CheckpointError
from keras_bert.families import FAMILIES
from keras_bert.text.added_tokens import AddedToken
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import usual_special_tokens

TOKENIZER, OPTIONS = "tokenizer.json", "tokenizer_config.json"
SPECIAL_TOKENS, ADDED = "special_tokens_map.json", "added_tokens.json"
CONFIGURATION = "config.json"

SPECIAL_TOKEN_NAMES = {  # role of a special token here, and its key in transformers' files
    "pad": "pad_token",
    "unknown": "unk_token",
    "cls": "cls_token",
    "separator": "sep_token",
    "mask": "mask_token",
}
_PARTS = set(SPECIAL_TOKEN_NAMES.values())
EXTRA, _NEW_EXTRA = "additional_special_tokens", "extra_special_tokens"
GENERIC = "PreTrainedTokenizerFast"
_NO_CLASS_OF_ITS_OWN = (GENERIC, "PreTrainedTokenizer", "TokenizersBackend")


class OtherTokenizerError(Exception):
    """Tokenizer that this package cannot express; the message names the difference."""


@dataclasses.dataclass(frozen=True)
class TextFiles:
    """Files of a directory; a missing file is an empty dictionary."""

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
        """Reads the files of a directory.

        Raises:
            CheckpointError: if a file is damaged.
        """
        names = (OPTIONS, TOKENIZER, SPECIAL_TOKENS, ADDED, CONFIGURATION)
        return cls(directory, *(read_json_if_there(directory / name) for name in names))

    @property
    def complete(self) -> bool:
        """Whether `tokenizer.json` describes the whole tokenizer.

        This is so if the files name a generic class, which has no defaults of its own.
        """
        return self._named_class[1] in _NO_CLASS_OF_ITS_OWN

    @property
    def _named_class(self) -> tuple[str, Any]:
        """File that names the tokenizer's class, and the class; else `CONFIGURATION` and None."""
        name = self.options.get("tokenizer_class")
        if name:
            return OPTIONS, name
        return CONFIGURATION, self.configuration.get("tokenizer_class")

    @functools.cached_property
    def family(self) -> ModuleType | None:
        """Family of the tokenizer, by the tokenizer's class or by the model's type.

        Raises:
            OtherTokenizerError: if the class belongs to no family.
        """
        file, name = self._named_class
        if not name or self.complete:
            return FAMILIES.get(str(self.configuration.get("model_type")))
        name = str(name).removesuffix("Fast")
        for family in FAMILIES.values():
            if name == f"{family.HUGGING_FACE_CLASS}Tokenizer":
                return family
        raise OtherTokenizerError(f"{self.directory / file} names the class {name!r}")

    def part(self, name: str) -> dict[str, Any]:
        """Returns an object in `tokenizer.json`, or an empty dictionary if there is no object."""
        value = self.tokenizer.get(name)
        return value if isinstance(value, dict) else {}

    def steps(self, name: str) -> list[dict[str, Any]]:
        """Returns the steps of a sequence in `tokenizer.json` (normalizer, pre_tokenizer, ...)."""
        return list(_flat(self.part(name)))

    def special_tokens(self, kind: str, tokens: Mapping[str, int]) -> dict[str, str]:
        """Returns the special tokens by role. A role that no file names has its usual token.

        Raises:
            CheckpointError: if a special token is not a string.
        """
        text = getattr(self.family, "TEXT", {})
        usual = text["special_tokens"] if text.get("tokenizer") == kind else None
        named = {**self.options, **self.special}
        special = {**(usual or usual_special_tokens(tokens))} | {
            ours: self._content(theirs, named[theirs])
            for ours, theirs in SPECIAL_TOKEN_NAMES.items()
            if named.get(theirs) is not None
        }
        if not self.separator_at_end:  # as in Llama 3, where cls also stands between two texts
            special["separator"] = self._template("pair")[2]
        return special

    @functools.cached_property
    def separator_at_end(self) -> bool:
        """Whether a separator stands after the last text; only generic classes may have none.

        Raises:
            OtherTokenizerError: if it is missing, and a pair is not `cls A X B` with a token X.
        """
        single, pair = self._template("single"), self._template("pair")
        if not self.complete or len(single) != 2 or single[1] != "A":
            return True
        if len(pair) != 4 or pair[:2] != single or pair[3] != "B":
            shown = " ".join(map(str, pair))
            raise OtherTokenizerError(f"{self.directory / TOKENIZER} has the template {shown!r}")
        return False

    def _template(self, name: str) -> list[Any]:
        """Returns the tokens around "A" and "B" in the template `single` or `pair`, if any."""
        for processor in self.steps("post_processor"):
            if processor.get("type") == "TemplateProcessing":
                return [inner.get("id") for part in processor[name] for inner in part.values()]
        return []

    def with_added(self, ids: Mapping[Any, Any], mask: str) -> list[str]:
        """Returns the tokens of a vocabulary and the added tokens, in the order of their ids.

        As in transformers, the mask and the added tokens come last if they have no id.

        Raises:
            CheckpointError: if an id is missing.
        """
        tokens = {index: token for token, index in ids.items() if isinstance(index, int)}
        whole = sorted(tokens) == list(range(len(ids)))
        for token, options in self._added.items():
            if token not in ids and "id" in options:
                tokens.setdefault(options["id"], token)
        known = {*ids, *tokens.values()}
        for token in dict.fromkeys((mask, *self._added)):
            if token not in known:
                tokens[next(i for i in itertools.count(len(ids)) if i not in tokens)] = token
        if not whole or sorted(tokens) != list(range(len(tokens))):
            raise CheckpointError(
                f"{self.directory}: the ids of the tokenizer's vocabulary are not 0, 1, 2, ..."
            )
        return [tokens[index] for index in range(len(tokens))]

    def added_tokens(self, ids: Mapping[Any, Any], others: Collection[str]) -> list[AddedToken]:
        """Returns the tokens that are matched in texts before the texts are split.

        Args:
            ids: vocabulary without the added tokens.
            others: tokens that are not returned: special tokens, and unused tokens of a class.
        """
        options = [field.name for field in dataclasses.fields(AddedToken)]
        return [
            AddedToken(
                **{"normalized": not token.get("special", False)}
                | {name: token[name] for name in options if name in token}
                | {"content": content, "in_model": content in ids}
            )
            for content, token in self._added.items()
            if content not in others
        ]

    @functools.cached_property
    def _added(self) -> dict[str, dict[str, Any]]:
        """Added tokens by content, with their options and ids, as transformers 5 reads them.

        The field `added_tokens_decoder` of `tokenizer_config.json` takes precedence over all other
        files. If this field exists, a class that is not generic reads only the vocabulary from
        `tokenizer.json`.
        """
        decoder = self.options.get("added_tokens_decoder")
        listed = self.tokenizer.get("added_tokens")
        listed = listed if isinstance(listed, list) else []
        added: dict[str, dict[str, Any]] = {}
        if isinstance(decoder, dict):
            numbered = [{**token, "id": int(index)} for index, token in decoder.items()]
            numbered.sort(key=lambda token: token["id"])
            listed = [*(listed if self.complete else []), *numbered]
        else:
            # With `added_tokens.json`, transformers ignores the extra tokens of this file.
            known = {name: self.special[name] for name in self.special if name != EXTRA}
            special = self._more_special_tokens(known)
            for content, index in self.added.items():
                added[content] = {"id": index, "special": content in special}
        for token in listed:
            added[token["content"]] = {**added.get(token["content"], {}), **token}
        more = self._more_special_tokens({} if isinstance(decoder, dict) else self.special)
        for content, options in more.items():
            added.setdefault(content, {**options, "special": True})
        return added

    def _more_special_tokens(self, special: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Returns the special tokens that have none of the five roles: their options by content."""
        named = {**self.options, **special}
        extra = named.get(_NEW_EXTRA) or named.get(EXTRA) or []
        tokens = [
            *(named[name] for name in named if name.endswith("_token") and name not in _PARTS),
            *(extra.values() if isinstance(extra, dict) else extra),
        ]
        tokens = [{"content": token} if isinstance(token, str) else token for token in tokens]
        return {token["content"]: token for token in tokens if isinstance(token, dict)}

    def mask_takes_space(self, mask: str, default: bool) -> bool:
        """Returns whether the mask token includes the white space before it (lstrip)."""
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

    def check_post_processor(self, cls: str, separator: str) -> None:
        """Checks that a `complete` `tokenizer.json` puts cls before a text and separator after it.

        Raises:
            OtherTokenizerError: if `tokenizer.json` adds other tokens.
        """
        if not (self.complete and self.tokenizer):
            return
        steps = [step for step in self.steps("post_processor") if step.get("type") != "ByteLevel"]
        types = [str(step.get("type")) for step in steps]
        if types == ["TemplateProcessing"]:
            single, pair = self._template("single"), self._template("pair")
            at_end = [separator] * self.separator_at_end
            forms = [[cls, "A", *[separator] * n, "B", *at_end] for n in (1, 2)]
            if single == [cls, "A", *at_end] and pair in forms:
                return
        if types not in (["BertProcessing"], ["RobertaProcessing"]):
            raise OtherTokenizerError(
                f"{self.directory / TOKENIZER} has the post_processor {types} without "
                f"{cls} A {separator}"
            )

    def separators_in_pair(self, separator: str) -> int:
        """Returns the number of separators between the texts of a pair."""
        for processor in self.steps("post_processor"):
            if processor.get("type") == "RobertaProcessing":
                return 2
            if processor.get("type") == "TemplateProcessing":
                names = self._template("pair")
                between = names[names.index("A") : names.index("B")]
                return max(between.count(separator), 1)
        return getattr(self.family, "TEXT", {}).get("separators_in_pair", 1)

    def num_segments(self, separators_in_pair: int) -> int:
        """Returns the number of segment ids in the model."""
        if separators_in_pair > 1:
            return 1
        model = FAMILIES.get(str(self.configuration.get("model_type")), self.family)
        traits = getattr(model, "TRAITS", {})
        return self.configuration.get("type_vocab_size", traits.get("num_segments", 2))

    def flag(self, source: Mapping[str, Any], name: str, default: bool | None) -> Any:
        """Returns an option, or the default if it is missing.

        Raises:
            CheckpointError: if the option is not true or false.
        """
        value = source.get(name)
        if not isinstance(value, bool | None):
            raise CheckpointError(
                f"{self.directory}: the tokenizer's {name} is {value!r}, not true or false."
            )
        return default if value is None else value

    def _content(self, name: str, token: Any) -> str:
        """Returns the content of a special token, which the file has as a string or an object."""
        token = token.get("content") if isinstance(token, dict) else token
        if not isinstance(token, str):
            raise CheckpointError(
                f"{self.directory}: the tokenizer's {name} is {token!r}, not a string."
            )
        return token


def model_tokens(tokenizer: Tokenizer) -> Sequence[str]:
    """Returns the vocabulary without the tokens that were added at its end."""
    tokens = tokenizer.vocabulary.tokens
    added = {token.content for token in tokenizer.added_tokens if not token.in_model}
    size = next(i for i in range(len(tokens), 0, -1) if tokens[i - 1] not in added)
    return tokens[:size]


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
