"""Model card: README.md beside the weights, as model hubs expect it.

The card has YAML for the hub between two lines of dashes, then Markdown for people. Its content
comes from the model and from `ModelCardData`. A card contains no date and no path, so equal models
have equal cards.
"""

import hashlib
import json
import logging
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import keras
import yaml

import keras_bert
from keras_bert.checkpoints.variables import saved_weights, task_name
from keras_bert.errors import InputError
from keras_bert.surrogates import without_surrogates
from keras_bert.tasks.registry import TASKS

README = "README.md"
LIBRARY = "keras-bert-encoders"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelCardData:
    """Data for a model card that cannot be derived from the model.

    Args:
        metadata: the hub's metadata: `license`, `language`, `base_model`, `datasets`,
            `model-index` (see `model_index`) and so on.
        sections: Markdown texts by heading, such as "Data", "Recipe" and "Metrics". A text replaces
            the card's section with the same heading, or becomes a new section at the end.

    Example:
        >>> card_data = ModelCardData({"license": "mit"}, {"Data": "Our mails of one year."})
        >>> keras_bert.save(model, "model", card=card_data)
    """

    metadata: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)


Card: TypeAlias = str | ModelCardData | None
"""Whole text of a card, or data for a card. None makes a card from the model alone."""


def make_card(
    model: keras.Model, library: str = LIBRARY, card_data: ModelCardData | None = None
) -> str:
    """Returns the text of a model's card.

    Args:
        model: an `Encoder` or a task.
        library: the hub's name of the library that reads the directory.
        card_data: data that cannot be derived from the model.
    """
    card_data, task = card_data or ModelCardData(), task_name(model)
    metadata: dict[str, Any] = {"library_name": library}
    if TASKS[task].pipeline:
        metadata["pipeline_tag"] = TASKS[task].pipeline
    metadata |= {"tags": [LIBRARY, model.config.family], **card_data.metadata}
    sections = {
        "Use": _use(model, task),
        "Labels": _labels(model),
        "Data": "",
        "Recipe": "",
        "Metrics": "",
        "Limits": "",
        **card_data.sections,
    }
    if not sections["Limits"]:
        sections["Limits"] = _limits(model, task, metadata, sections)
    text = f"---\n{to_yaml(metadata)}---\n\n# {title(model)}\n\n{_summary(model)}\n"
    text += "".join(f"\n## {name}\n\n{said.strip()}\n" for name, said in sections.items() if said)
    text = without_surrogates(text)
    return text + _MARK.format(_digest(text))


def write_card(
    directory: Path,
    model: keras.Model,
    library: str = LIBRARY,
    card: Card = None,
    *,
    earlier: Path | None = None,
) -> None:
    """Writes a model's card.

    If a person wrote or changed the earlier card, the earlier card is kept, and a warning says so.
    Only a `card` that is a whole text replaces the earlier card. Lone surrogates become U+FFFD.

    Args:
        directory: directory to write to.
        model: an `Encoder` or a task.
        library: as in `make_card`.
        card: the whole text, or data for the card.
        earlier: directory with the earlier card, which `directory` will replace.

    Raises:
        InputError: if `card` has another type.
    """
    if not isinstance(card, Card):
        raise InputError(
            f"The card is a {type(card).__name__}, but must be a text or ModelCardData."
        )
    before = None if earlier is None else earlier / README
    if before and not isinstance(card, str) and before.is_file() and not _is_untouched(before):
        logger.warning("%s was written by hand and stays; check that it is still true.", before)
        shutil.copyfile(before, directory / README)
        return
    text = without_surrogates(card) if isinstance(card, str) else make_card(model, library, card)
    (directory / README).write_text(text, "utf-8")


def read_card_data(directory: Path, model: keras.Model | None = None) -> ModelCardData:
    """Reads from a directory's card the data that cannot be derived from the directory's model.

    If this package did not write the card, or no `model` is given, reads only the license and the
    language.

    Args:
        directory: directory of a model. A missing or unreadable card gives no data.
        model: the model in the directory, if the data will describe a model of the same task.
    """
    try:
        text = (directory / README).read_text("utf-8")
        _, metadata, body = re.split(r"^---$", text, maxsplit=2, flags=re.MULTILINE)
        metadata = dict(yaml.safe_load(metadata))
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError):
        return ModelCardData()
    mark = _MARK_PATTERN.search(body)
    if model is None or mark is None:
        return ModelCardData({k: v for k, v in metadata.items() if k in _LASTING and _is_said(v)})
    _, *parts = re.split(r"^## (.+)$", body[: mark.start()], flags=re.MULTILINE)
    sections = {k: v.strip() for k, v in zip(parts[::2], parts[1::2], strict=True)}
    own = ["Use", "Labels"]
    if _follows(sections.get("Limits", ""), model):
        own.append("Limits")
    return ModelCardData(
        {k: v for k, v in metadata.items() if k not in ("library_name", "pipeline_tag", "tags")},
        {k: v for k, v in sections.items() if k not in own},
    )


def title(model: keras.Model) -> str:
    """Returns the title of a model's card."""
    return f"{type(model).__name__} ({model.config.family})"


def to_yaml(value: Any) -> str:
    """Returns a value as YAML. Types that JSON does not have become text."""
    plain = json.loads(json.dumps(value, default=str))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=88)


def block(value: Any) -> str:
    """Returns a value as a YAML block in Markdown, with a fence longer than any in the value."""
    text = to_yaml(value)
    inside = re.findall("^ *(`{3,})$", text, flags=re.MULTILINE)
    fence = max(["```", *(f"{ticks}`" for ticks in inside)], key=len)
    return f"{fence}yaml\n{text}{fence}"


def table(columns: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a Markdown table of numbers, given by column and then by row."""
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = [["", *columns], ["---"] * (len(columns) + 1)]
    for name in names:
        values = (column.get(name) for column in columns.values())
        rows.append([name, *("" if x is None else str(round(x, 4)) for x in values)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def model_index(
    model: keras.Model, measured: Mapping[str, tuple[str, Mapping[str, float]]]
) -> dict[str, Any]:
    """Returns the hub's metadata for measured metrics, without losses.

    Args:
        model: the measured model.
        measured: for each split, such as "test", the name of the data and the metrics.
    """
    task = task_name(model)
    results: list[dict[str, Any]] = []
    for split, (data, metrics) in measured.items():
        values = [
            {
                "type": next((kind for end, kind in _TYPES.items() if name.endswith(end)), name),
                "value": round(value, 4),
                "name": name,
            }
            for name, value in metrics.items()
            if not name.endswith("loss") and math.isfinite(value)
        ]
        dataset = {"name": data, "type": Path(data).suffix[1:] or "text", "split": split}
        if values:
            pipeline = {"type": TASKS[task].pipeline or task}
            results.append({"task": pipeline, "dataset": dataset, "metrics": values})
    if not results:
        return {}
    types = dict.fromkeys(value["type"] for result in results for value in result["metrics"])
    return {"metrics": list(types), "model-index": [{"name": title(model), "results": results}]}


_LASTING = ("license", "license_name", "license_link", "language")
_TYPES = {  # how names of metrics end, and the hub's name for the metric
    "accuracy": "accuracy",
    "f1": "f1",
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "perplexity": "perplexity",
    "spearman": "spearmanr",
}
_MARK = (
    "\n<!-- Written by keras-bert-encoders, {}. Change what you like: a changed card stays when "
    "a model is saved here again. -->\n"
)
_MARK_PATTERN = re.compile(re.escape(_MARK).replace(r"\{\}", "([0-9a-f]{16})") + r"\Z")


def _is_said(value: Any) -> bool:
    """Returns whether a value is text or a list of texts; YAML reads `no` as false."""
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(each, str) for each in values)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_untouched(path: Path) -> bool:
    """Returns whether nobody changed a card since this package wrote it."""
    text = path.read_text("utf-8", errors="replace")
    mark = _MARK_PATTERN.search(text)
    return mark is not None and mark[1] == _digest(text[: mark.start()])


def _summary(model: keras.Model) -> str:
    config = model.config
    weights = sum(math.prod(variable.shape) for variable in saved_weights(model).values())
    return (
        f"A model of the class `{type(model).__name__}` of {LIBRARY} {keras_bert.__version__}, its "
        f"encoder of the family {config.family}. Weights: {weights:,}; layers: "
        f"{config.num_layers}; width: {config.hidden_size}; heads: {config.num_heads}; rows of the "
        f"token embedding: {config.vocabulary_size:,}."
    )


def _use(model: keras.Model, task: str) -> str:
    lines = TASKS[task].example
    if model.preprocessor is None:
        shape = TASKS[task].ids_shape
        call = f'model({{"token_ids": np.ones({shape}, "int32")}})  # it has no preprocessor'
        lines = ("import numpy as np", call)
    elif TASKS[task].language_model:
        text = f"The {model.preprocessor.vocabulary.mask} is here."
        lines = (*lines[:-1], lines[-1].format(json.dumps(text, ensure_ascii=False)))
    *imports, call = lines
    code = "\n".join(
        [*imports, "import keras_bert", "", f'model = keras_bert.load(".", task="{task}")', call]
    )
    return f"In this directory, with `{LIBRARY}` installed:\n\n```python\n{code}\n```"


def _labels(model: keras.Model) -> str:
    if getattr(model, "problem_type", None) == "regression":
        return "None: the model predicts a number."
    labels = getattr(model, "labels", ())
    return f"In the order of the logits:\n\n{block(list(labels))}" if labels else ""


def _limits(
    model: keras.Model, task: str, metadata: Mapping[str, Any], sections: Mapping[str, str]
) -> str:
    """Returns a list of the model's limits and of data that are missing in the card."""
    limits = _own_limits(model, task)
    recorded = {
        "license": "license" in metadata,
        "languages": "language" in metadata,
        **{name.lower(): sections[name] for name in ("Data", "Recipe", "Metrics")},
    }
    unknown = [name for name, known in recorded.items() if not known]
    if unknown:
        limits.append(f"{_UNKNOWN}{', '.join(unknown)}.")
    return "\n".join(f"- {limit}" for limit in limits)


_UNKNOWN = "Not recorded here: "


def _follows(limits: str, model: keras.Model) -> bool:
    """Returns whether all limits of a card follow from the model."""
    own = _own_limits(model, task_name(model))
    said = (line.removeprefix("- ") for line in limits.splitlines())
    return all(line in own or line.startswith(_UNKNOWN) for line in said)


def _own_limits(model: keras.Model, task: str) -> list[str]:
    limits = []
    preprocessor = model.preprocessor
    if preprocessor is not None:
        length, pooling = preprocessor.sequence_length, getattr(model, "windows", None)
        done = "divided into windows of that length." if TASKS[task].windows else "cut."
        if pooling is not None:
            done = (
                f"divided into at most {model.max_windows} windows of that length; the {pooling} "
                "of the windows' vectors stands for the text."
            )
        limits.append(f"Texts of more than {length} tokens, special tokens included, are {done}")
        if getattr(preprocessor.tokenizer, "lowercase", False):
            limits.append("Texts are lowercased, so `Turkey` and `turkey` are the same word.")
    if model.config.position_input and getattr(model, "windows", None) is None:
        limits.append(
            f"The encoder has {model.config.max_positions} positions; texts cannot be longer."
        )
    if task == "classifier" and model.problem_type == "single_label":
        limits.append("The model always predicts one of its labels, even if no label fits.")
    return limits
