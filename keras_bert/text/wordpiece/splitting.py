"""Words of normalised text: what stands between white space, and punctuation by itself.

The operation of `WordPiece` splits by itself, in one pass. This is for whoever needs the words:
learning a vocabulary, and `WordPiece(split_cjk=False)`.
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow_text as tf_text

WHITE_SPACE = r"\s\v\p{Z}\x{85}"
"""All of Unicode's white space, inside the brackets of a regular expression."""
_PUNCTUATION = r"\p{P}$+<=>^`|~"  # BERT counts all of ASCII's symbols as punctuation
CJK = (  # the CJK Unified Ideographs and compatibility blocks that tokenization.py lists
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
"""Ideographs that are words by themselves, inside the brackets of a regular expression."""


def split_words(
    texts: tf.Tensor, *, split_cjk: bool = True
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Words of normalised texts `[N]`, with their first byte and the byte after their last.

    Returns:
        Words, starts and ends, `[N, (words)]`: string, int64, int64.
    """
    single = f"[{_PUNCTUATION}{CJK if split_cjk else ''}]"
    return tf_text.regex_split_with_offsets(
        texts, delim_regex_pattern=f"[{WHITE_SPACE}]+|{single}", keep_delim_regex_pattern=single
    )
