"""A tokenizer for formulas: a text becomes as few tokens of a vocabulary as possible.

Models of chemistry and biology often come with a regular expression and a list of tokens (atoms,
bonds, residues). Where the list has what the expression finds, this finds it too.
"""

from __future__ import annotations

from keras_bert.text.character_map import write_character_map
from keras_bert.text.sentencepiece.model import SentencePieceModel
from keras_bert.text.sentencepiece.tokenizer import SentencePiece
from keras_bert.text.vocabulary import Vocabulary

_WHITE_SPACE = " \t\n\r"
_COST = 0.1  # of a token; a character is worth 1


def fewest_tokens(vocabulary: Vocabulary) -> SentencePiece:
    """A tokenizer that covers a text by as few tokens as it can; white space only separates.

    A character that is in no token becomes the unknown one.

    Example:
        >>> tokenizer = fewest_tokens(Vocabulary.from_file("vocab.txt"))
        >>> tokenizer.tokenize(["CC(=O)Cl", "C C ( = O ) Cl"])  # twice the same
    """
    model = SentencePieceModel.from_pieces(
        vocabulary.tokens,
        [len(token) - _COST for token in vocabulary.tokens],
        unknown_id=vocabulary.unknown_id,
        control=list(vocabulary.special_tokens.values()),
        character_map=write_character_map(dict.fromkeys(_WHITE_SPACE, "")),
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        escape_whitespaces=False,
    )
    return SentencePiece(model.to_bytes(), special_tokens=vocabulary.special_tokens)
