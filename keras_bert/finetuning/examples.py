"""Examples that a model is trained, measured and run on, by kind of task.

All kinds share the fields and methods of `Examples`. Examples without labels have None in their
place.
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
    """Columns of a file to read. Columns without a name are found by their usual names.

    Args:
        text: the text, or the first of a pair.
        pair: the second text of a pair.
        labels: the label. Several columns are one label each, with a yes or a no in each row.
    """

    text: str | None = None
    pair: str | None = None
    labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examples:
    """N examples, in the order of the file. Every field that is a tuple holds one value for each.

    Args:
        path: the file, for messages.
        lines: number of the line at which each example begins.
        unit: unit of `lines`, such as "line" or "question".
        groups: group of each example, such as an article. Examples of one group are not divided
            between training and validation. None if each stands for itself.
    """

    texts_per_line: ClassVar[tuple[int, float]] = (1, 1)
    """Smallest and largest number of texts in a line for `from_lines`, with tabs between them."""
    line_form: ClassVar[str] = "one text, without tabs"
    """Form of such a line, for messages."""
    shown_fields: ClassVar[Mapping[str, str]] = {}
    """Names of the values beside a prediction to the fields that hold them."""

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
                always have tabs, such as a question and its context.
            first: number of the first line.

        Raises:
            InputError: if a line has not the form that the task needs.
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
        labels: a string each, as in the file; a tuple of strings for several labels.
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
        """Argument of a `Preprocessor`: the texts, or a tuple of texts and texts."""
        texts = list(self.texts)
        return texts if self.pairs is None else (texts, list(self.pairs))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggedExamples(Examples):
    """Texts with a tag for each word, for a `TokenClassifier`.

    Args:
        texts: the texts. If words were given one by one, they have spaces between them.
        words: for each text, the first character of each word and the one after its last.
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
        """Returns the examples with tags of a scheme; see `to_scheme`."""
        if scheme is None or self.tags is None:
            return self
        return dataclasses.replace(
            self, tags=tuple(tuple(to_scheme(tags, scheme)) for tags in self.tags)
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionExamples(Examples):
    """Questions to be answered by a part of a text, for a `SpanClassifier`.

    Args:
        ids: names of the questions.
        questions: the questions.
        contexts: the text for each question.
        answers: for each question, the right answers: the text, and its first character in the
            context. An empty tuple means that the context does not answer the question.
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

    A `TextEmbedder` learns from them, too: the right choice belongs to the text.

    Args:
        contexts: the texts.
        choices: for each text, its C choices.
        labels: index of the right choice.
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
        """Argument of a `Preprocessor`: each context C times, and the choices one by one."""
        contexts = [
            context
            for context, choices in zip(self.contexts, self.choices, strict=True)
            for _ in choices
        ]
        return contexts, [choice for choices in self.choices for choice in choices]

    def check_counts(self) -> None:
        """Checks that all texts have the same number of choices.

        Raises:
            InputError: if a text has not; the message names file and line.
        """
        for index, choices in enumerate(self.choices):
            if len(choices) != len(self.choices[0]):
                raise InputError(
                    f"{self.place(index)}: {len(choices)} choices, but the first example has "
                    f"{len(self.choices[0])}; give all examples as many."
                )


AnyExamples = TypeVar("AnyExamples", bound=Examples)


def labels_of(examples: Examples) -> list[Sequence[str]]:
    """Returns the labels of each example, as a list: one, several, or one for each word.

    The list is empty if the examples have no labels.
    """
    labels = getattr(examples, "tags", None) or getattr(examples, "labels", None) or ()
    return [several if isinstance(several, tuple) else (several,) for several in labels]


def hold_out(examples: AnyExamples, ratio: float, seed: int = 0) -> tuple[AnyExamples, AnyExamples]:
    """Draws a part of the examples at random, for validation.

    Args:
        examples: N examples. Examples of one group are held out together, so the part may be
            somewhat smaller than the ratio. If every group is larger, the smallest is held out.
        ratio: ratio of the examples to hold out, at least one example.
        seed: seed of the draw.

    Returns:
        The remaining examples and the held-out examples, in the order of the file.

    Raises:
        InputError: if the ratio is not between 0 and 1, or no example would remain.
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
