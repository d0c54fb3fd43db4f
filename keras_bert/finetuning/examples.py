"""Examples that a model is trained, measured and run on: one class for each kind of task.

All classes share the fields and methods of `Examples`. Examples without
labels have the value None in the field for labels.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from keras_bert.errors import InputError
from keras_bert.tasks.entities import to_scheme
from keras_bert.text.words import split_words

Cells = list[list[str]]
"""Lines that are split at their tabs."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Names of the columns to read. A column that is not named is found by its usual name.

    Args:
        text: column of the text, or of the first text of a pair.
        pair: column of the second text of a pair.
        labels: column of the label. If several columns are given, each is a label, and its cells
            say yes or no.
    """

    text: str | None = None
    pair: str | None = None
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):
            raise InputError(
                f"labels is {self.labels!r}, but must be a tuple of columns: ({self.labels!r},)."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examples:
    """N examples, in the order of the file. Every field that is a tuple has one value per example.

    Args:
        path: the file, for messages.
        lines: number of the line at which each example begins.
        unit: unit of `lines`, such as "line" or "question".
        groups: group of each example, such as its article. `hold_out` never divides a group
            between training and validation. None means that the examples have no groups.
    """

    texts_per_line: ClassVar[tuple[int, float]] = (1, 1)
    """Smallest and largest number of texts in a line for `from_lines`. Tabs separate the texts."""
    line_form: ClassVar[str] = "one text, without tabs"
    """Description of a line for `from_lines`, for messages."""
    shown_fields: ClassVar[Mapping[str, str]] = {}
    """Values to show beside a prediction: the key to show, and the field with the values."""

    path: str
    lines: tuple[int, ...]
    unit: str = "line"
    groups: tuple[Any, ...] | None = None

    @classmethod
    def from_lines(cls, lines: Sequence[str], *, pairs: bool = False, first: int = 1) -> Self:
        """Makes examples without labels from lines of text.

        Args:
            lines: N lines, 1 or more.
            pairs: whether each line is two texts with a tab between them. Some kinds of examples
                always have tabs, for example between a question and its context.
            first: number of the first line.

        Raises:
            InputError: if a line has fewer or more texts than the task needs.
        """
        least, most = cls.texts_per_line
        least = max(least, 2 if pairs else 1)
        cells = [line.split("\t") if pairs or least > 1 else [line] for line in lines]
        for line, texts in zip(lines, cells, strict=True):
            if not least <= len(texts) <= most:
                raise InputError(f"{line[:50]!r} cannot be used: expected {cls.line_form}.")
        numbers = tuple(range(first, first + len(lines)))
        return cls(path="The input", lines=numbers, **cls._fields(cells, numbers))

    @classmethod
    def _fields(cls, cells: Cells, numbers: Sequence[int]) -> dict[str, Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, indices: Sequence[int] | np.ndarray) -> Self:
        """Returns the examples with these indices, in their order."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        taken: dict[str, Any] = {
            name: tuple(values[index] for index in indices)
            for name, values in fields.items()
            if isinstance(values, tuple)
        }
        return dataclasses.replace(self, **taken)

    def place(self, index: int) -> str:
        """Returns the file and line of an example, for messages."""
        return f"{self.path}, {self.unit} {self.lines[index]}"

    def shown(self, index: int) -> dict[str, Any]:
        """Returns the values that are shown beside the prediction for an example."""
        fields = ((name, getattr(self, field)) for name, field in self.shown_fields.items())
        return {name: values[index] for name, values in fields if values is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextExamples(Examples):
    """Texts or pairs of texts, for a `SequenceClassifier` or a `TextEmbedder`.

    Args:
        texts: the texts.
        pairs: the second texts if examples are pairs.
        labels: the label of each text, a string as in the file, or a tuple of several labels.
        columns: the columns that were read.
    """

    texts_per_line: ClassVar[tuple[int, float]] = (1, 2)
    line_form: ClassVar[str] = "two texts with a tab between"
    shown_fields: ClassVar[Mapping[str, str]] = {"text": "texts", "pair": "pairs"}

    texts: tuple[str, ...]
    pairs: tuple[str, ...] | None = None
    labels: tuple[str | tuple[str, ...], ...] | None = None
    columns: Columns = Columns()

    @classmethod
    def _fields(cls, cells: Cells, numbers: Sequence[int]) -> dict[str, Any]:
        texts, *pairs = zip(*cells, strict=True)
        return {"texts": texts, "pairs": pairs[0] if pairs else None}

    @property
    def inputs(self) -> Any:
        """Argument of a `Preprocessor`: the texts, or a tuple of first texts and second texts."""
        texts = list(self.texts)
        return texts if self.pairs is None else (texts, list(self.pairs))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggedExamples(Examples):
    """Texts with a tag for each word, for a `TokenClassifier`.

    Args:
        texts: the texts. If a file has single words, they are joined with spaces.
        words: for each text, the position of each word: its first character, and the character
            after its last.
        tags: for each text, a tag for each word.
    """

    shown_fields: ClassVar[Mapping[str, str]] = {"text": "texts"}

    texts: tuple[str, ...]
    words: tuple[tuple[tuple[int, int], ...], ...]
    tags: tuple[tuple[str, ...], ...] | None = None

    @classmethod
    def _fields(cls, cells: Cells, numbers: Sequence[int]) -> dict[str, Any]:
        texts = tuple(text for (text,) in cells)
        return {"texts": texts, "words": tuple(tuple(split_words(text)) for text in texts)}

    @property
    def inputs(self) -> list[str]:
        """Argument of a `Preprocessor`."""
        return list(self.texts)

    def in_scheme(self, scheme: str | None) -> Self:
        """Returns the examples with their tags converted to a scheme; see `to_scheme`."""
        if scheme is None or self.tags is None:
            return self
        return dataclasses.replace(
            self, tags=tuple(tuple(to_scheme(tags, scheme)) for tags in self.tags)
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionExamples(Examples):
    """Questions whose answers are parts of a text, for a `SpanClassifier`.

    Args:
        ids: name of each question.
        questions: the questions.
        contexts: for each question, the text that may hold the answer.
        answers: for each question, its right answers. An answer is its text and the position of
            its first character in the context. An empty tuple means that the context does not
            answer the question.
    """

    texts_per_line: ClassVar[tuple[int, float]] = (2, 2)
    line_form: ClassVar[str] = "a question and its context with a tab between"
    shown_fields: ClassVar[Mapping[str, str]] = {"id": "ids", "question": "questions"}

    ids: tuple[str, ...]
    questions: tuple[str, ...]
    contexts: tuple[str, ...]
    answers: tuple[tuple[tuple[str, int], ...], ...] | None = None

    @classmethod
    def _fields(cls, cells: Cells, numbers: Sequence[int]) -> dict[str, Any]:
        questions, contexts = zip(*cells, strict=True)
        return {"ids": tuple(map(str, numbers)), "questions": questions, "contexts": contexts}

    @property
    def inputs(self) -> tuple[list[str], list[str]]:
        """Argument of a `Preprocessor`: questions and contexts."""
        return list(self.questions), list(self.contexts)

    def place(self, index: int) -> str:
        """Returns the file, line and id of an example, for messages."""
        return f"{super().place(index)} ({self.ids[index]})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceExamples(Examples):
    """Texts with C possible continuations or answers each, for a `MultipleChoice`.

    A `TextEmbedder` can learn from these examples, too: a text and its right choice are a pair.

    Args:
        contexts: the texts.
        choices: for each text, its C choices.
        labels: for each text, the index of the right choice.
    """

    texts_per_line: ClassVar[tuple[int, float]] = (2, np.inf)
    line_form: ClassVar[str] = "a context and its choices with tabs between"
    shown_fields: ClassVar[Mapping[str, str]] = {"context": "contexts"}

    contexts: tuple[str, ...]
    choices: tuple[tuple[str, ...], ...]
    labels: tuple[int, ...] | None = None

    @classmethod
    def _fields(cls, cells: Cells, numbers: Sequence[int]) -> dict[str, Any]:
        contexts, choices = zip(*((context, tuple(rest)) for context, *rest in cells), strict=True)
        return {"contexts": contexts, "choices": choices}

    @property
    def inputs(self) -> tuple[list[str], list[str]]:
        """Argument of a `Preprocessor`: a list with each context C times, and all choices."""
        contexts = [
            context
            for context, choices in zip(self.contexts, self.choices, strict=True)
            for _ in choices
        ]
        return contexts, [choice for choices in self.choices for choice in choices]

    def check_counts(self) -> None:
        """Checks that all texts have the same number of choices.

        Raises:
            InputError: if the numbers differ; the message names file and line.
        """
        for index, choices in enumerate(self.choices):
            if len(choices) != len(self.choices[0]):
                raise InputError(
                    f"{self.place(index)}: {len(choices)} choices, but the first example has "
                    f"{len(self.choices[0])}; give all examples the same number."
                )


AnyExamples = TypeVar("AnyExamples", bound=Examples)


def labels_of(examples: Examples) -> list[Sequence[str]]:
    """Returns a sequence of labels for each example: one label, several, or one for each word.

    If the examples have no labels, the list is empty.
    """
    labels = getattr(examples, "tags", None) or getattr(examples, "labels", None) or ()
    return [several if isinstance(several, tuple) else (several,) for several in labels]


def hold_out(examples: AnyExamples, ratio: float, seed: int = 0) -> tuple[AnyExamples, AnyExamples]:
    """Holds out a random part of the examples, for validation.

    Args:
        examples: N examples. A group is never divided, so fewer examples than the ratio may be
            held out. If no group fits into the requested number of examples, the smallest group
            is held out.
        ratio: ratio of the examples to hold out. At least one example is held out.
        seed: seed of the random choice.

    Returns:
        The remaining examples and the held-out examples, in the order of the file.

    Raises:
        InputError: if the ratio is not between 0 and 1, or no example would remain.

    Example:
        >>> train, validation = hold_out(read("classifier", "train.csv"), 0.1)
        >>> len(train), len(validation)
        (90, 10)
    """
    if not 0 < ratio < 1:
        raise InputError(f"The ratio to hold out is {ratio}, but must be between 0 and 1.")
    count = max(1, round(ratio * len(examples)))
    groups = range(len(examples)) if examples.groups is None else examples.groups
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    members = np.array([numbers[group] for group in groups], int)
    sizes = np.bincount(members)
    chosen, left = list[int](), count
    for group in np.random.default_rng(seed).permutation(len(sizes)):
        if sizes[group] <= left:
            chosen.append(group)
            left -= sizes[group]
    held = np.isin(members, chosen or [np.argmin(sizes)])
    if held.all():
        parts = "" if examples.groups is None else f" in {len(numbers)} groups"
        raise InputError(
            f"{examples.path} has {len(examples)} examples{parts}, too few to hold out {ratio:.0%}."
        )
    return examples.take(np.flatnonzero(~held)), examples.take(np.flatnonzero(held))
