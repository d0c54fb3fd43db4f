"""What a model is trained, measured and run on, by kind of task.

All kinds share the fields and methods of `Examples`; the others are theirs alone. Whatever is not
labelled has None in the place of labels.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np

from keras_bert.errors import InputError
from keras_bert.tasks.entities import to_scheme


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns of a file mean what; None is found by its usual name.

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
        lines: where in the file each example begins.
        unit: what `lines` counts.
        groups: what each example is a part of, such as an article; examples of one group are
            not divided between training and validation. None if each stands for itself.
    """

    path: str
    lines: tuple[int, ...]
    unit: str = "line"
    groups: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, indices: Sequence[int] | np.ndarray) -> Self:
        """Some of the examples, in the order given."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        taken: dict[str, Any] = {
            name: tuple(values[index] for index in indices)
            for name, values in fields.items()
            if isinstance(values, tuple)
        }
        return dataclasses.replace(self, **taken)

    def place(self, index: int) -> str:
        """File and line of an example, for messages."""
        return f"{self.path}, {self.unit} {self.lines[index]}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextExamples(Examples):
    """Texts or pairs of texts, for a `SequenceClassifier` or a `TextEmbedder`.

    Args:
        texts: the texts.
        pairs: the second texts, where examples are pairs.
        labels: a string each, as in the file; a tuple of strings for several labels.
        columns: the columns that were read.
    """

    texts: tuple[str, ...]
    pairs: tuple[str, ...] | None = None
    labels: tuple[str | tuple[str, ...], ...] | None = None
    columns: Columns = Columns()

    @property
    def inputs(self) -> Any:
        """What a `Preprocessor` takes: the texts, or a tuple of texts and texts."""
        texts = list(self.texts)
        return texts if self.pairs is None else (texts, list(self.pairs))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggedExamples(Examples):
    """Texts with a tag for each word, for a `TokenClassifier`.

    Args:
        texts: the texts; of words that were given one by one, these with spaces between.
        words: for each text, the first character of each word and the one after its last.
        tags: for each text, a tag for each word.
    """

    texts: tuple[str, ...]
    words: tuple[tuple[tuple[int, int], ...], ...]
    tags: tuple[tuple[str, ...], ...] | None = None

    @property
    def inputs(self) -> list[str]:
        """What a `Preprocessor` takes."""
        return list(self.texts)

    def in_scheme(self, scheme: str | None) -> Self:
        """The examples with tags of a scheme; see `to_scheme`."""
        if scheme is None or self.tags is None:
            return self
        return dataclasses.replace(
            self, tags=tuple(tuple(to_scheme(tags, scheme)) for tags in self.tags)
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionExamples(Examples):
    """Questions to be answered by a part of a text, for a `SpanClassifier`.

    Args:
        ids: the names of the questions.
        questions: the questions.
        contexts: the text for each question.
        answers: for each question, the answers that are right: the text, and its first character
            in the context. None at all: the context does not answer the question.
    """

    ids: tuple[str, ...]
    questions: tuple[str, ...]
    contexts: tuple[str, ...]
    answers: tuple[tuple[tuple[str, int], ...], ...] | None = None

    @property
    def inputs(self) -> tuple[list[str], list[str]]:
        """What a `Preprocessor` takes: questions and contexts."""
        return list(self.questions), list(self.contexts)

    def place(self, index: int) -> str:
        """File, line and id of an example, for messages."""
        return f"{super().place(index)} ({self.ids[index]})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceExamples(Examples):
    """Texts with C possible continuations or answers each, for a `MultipleChoice`.

    A `TextEmbedder` learns from them, too: the right choice belongs to the text.

    Args:
        contexts: the texts.
        choices: for each text, its C choices.
        labels: the index of the choice that is right.
    """

    contexts: tuple[str, ...]
    choices: tuple[tuple[str, ...], ...]
    labels: tuple[int, ...] | None = None

    @property
    def inputs(self) -> tuple[list[str], list[str]]:
        """What a `Preprocessor` takes: each context C times, and the choices one by one."""
        contexts = [
            context
            for context, choices in zip(self.contexts, self.choices, strict=True)
            for _ in choices
        ]
        return contexts, [choice for choices in self.choices for choice in choices]

    def check_counts(self) -> None:
        """Passes if all texts have as many choices.

        Raises:
            InputError: if one has not; the message names file and line.
        """
        for index, choices in enumerate(self.choices):
            if len(choices) != len(self.choices[0]):
                raise InputError(
                    f"{self.place(index)}: {len(choices)} choices, but the first example has "
                    f"{len(self.choices[0])}; give all examples as many."
                )


AnyExamples = TypeVar("AnyExamples", bound=Examples)


def hold_out(examples: AnyExamples, share: float, seed: int = 0) -> tuple[AnyExamples, AnyExamples]:
    """A part of the examples drawn at random, for validation.

    Args:
        examples: N examples. Those of one group are held out together, so it may be somewhat
            less than the share; where every group is larger than that, it is the smallest.
        share: of the examples to hold out, at least one.
        seed: another seed, another part.

    Returns:
        What is left, and what is held out, in the order of the file.

    Raises:
        InputError: if the share is not between 0 and 1, or nothing would be left.
    """
    if not 0 < share < 1:
        raise InputError(f"The share to hold out is {share}, but must be between 0 and 1.")
    count = max(1, round(share * len(examples)))
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
            f"{examples.path} has {len(examples)} examples{parts}, too few to hold out {share:.0%}."
        )
    return examples.take(np.flatnonzero(~held)), examples.take(np.flatnonzero(held))
