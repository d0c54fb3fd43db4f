"""CoNLL files: a word and its tags in each line, a blank line after each sentence."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import TaggedExamples
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.finetuning.readers.sentences import Sentence, spaced, tagged_examples
from keras_bert.text.files import read_lines

_DOCUMENT = "-DOCSTART-"
_NO_WORD = re.compile(r"\d+[-.]\d+\t")  # CoNLL-U: a contraction before its words, or an empty node


class _Block(NamedTuple):
    """Lines of a sentence with their numbers, and the number of its document."""

    lines: list[tuple[int, str]]
    document: int


def read_conll(
    path: str | os.PathLike,
    *,
    word_column: int = 0,
    tag_column: int = -1,
    comment: str | None = None,
    scheme: str | None = None,
    labelled: bool = True,
    on_error: OnError = "fail",
) -> TaggedExamples:
    """Reads sentences of tagged words.

    Columns are separated by tabs if the first line has one, else by spaces. Lines that begin
    with -DOCSTART- begin documents, which are the groups of the examples. In CoNLL-U, the first
    column numbers the words. Ranges such as 1-2 and empty nodes such as 1.1 are no words, so they
    are left out.

    Args:
        path: the file.
        word_column: index of the column of the words; below 0 counts from the last.
        tag_column: index of the column of the tags.
        comment: beginning of lines that are left out before the first word of a sentence, such as
            "# " in CoNLL-U files.
        scheme: "iob1", "iob2" or "bioes" converts the tags; None leaves them as they are.
        labelled: whether tags are needed; if not, they are read if there is a second column.
        on_error: "fail" at the first sentence with a word that has no tag or not all columns,
            or "skip" such sentences and log their number.

    Raises:
        InputError: if the file cannot be read, has no such columns, or a sentence cannot be
            used; the message names the file and the line.
    """
    blocks = list(_blocks(path, comment))
    if not blocks:
        raise InputError(f"{path} has no sentences: expected a word and its tag in each line.")
    first_line, first = blocks[0].lines[0]
    separator = "\t" if "\t" in first else " "
    count = len(_cells(first, separator))
    tag_column = tag_column if labelled or count > 1 else word_column
    for column in (word_column, tag_column):
        if not -count <= column < count:
            raise InputError(f"{path} has no column {column}: line {first_line} has {count}.")
    tagged = word_column % count != tag_column % count
    if labelled and not tagged:
        raise InputError(
            f"{path}, line {first_line}: the word has no tag; expected both in each line, with "
            "a tab or a space between."
        )

    def read(block: _Block) -> Sentence:
        words, tags = [], []
        for line, text in block.lines:
            if word_column % count and _NO_WORD.match(text):
                continue
            cells = _cells(text, separator)
            if len(cells) != count:
                raise InputError(
                    f"{path}, line {line}: {len(cells)} columns, but line {first_line} has "
                    f"{count}; give every word its tag, and no other columns."
                )
            for column, name in ((word_column, "word"), (tag_column, "tag")):
                if not cells[column] and (labelled or name == "word"):
                    raise InputError(f"{path}, line {line}: the {name} is missing in {text!r}.")
            words.append(cells[word_column])
            tags.append(cells[tag_column])
        known = tuple(tags) if tagged and all(tags) else None
        return Sentence(block.lines[0][0], *spaced(words), known, block.document)

    return tagged_examples(path, read_each(read, blocks, path, on_error), scheme)


def _blocks(path: str | os.PathLike, comment: str | None) -> Iterator[_Block]:
    document = 0
    lines: list[tuple[int, str]] = []
    for line, text in enumerate(read_lines(path), start=1):
        begins = text.startswith(_DOCUMENT)
        if begins or not text.strip():
            if lines:
                yield _Block(lines, document)
            document, lines = document + begins, []
        elif lines or comment is None or not text.startswith(comment):
            lines.append((line, text))
    if lines:
        yield _Block(lines, document)


def _cells(text: str, separator: str) -> list[str]:
    cells = [cell.strip(" ") for cell in text.split(separator)]
    return cells if separator == "\t" else [cell for cell in cells if cell]
