"""Hugging Face's tokenizer of a vocab.txt."""

import transformers


def load(vocabulary):
    """The fast one; raises if it has not taken the vocabulary.

    An argument of a name that it does not know is ignored: release 5 has `vocab` where release 4
    had `vocab_file`, and with the other one everything is `[UNK]`.
    """
    tokenizer = transformers.BertTokenizerFast(vocab=vocabulary)
    with open(vocabulary, encoding="utf-8") as file:
        expected = sum(1 for _ in file)
    if len(tokenizer) != expected:
        raise ValueError(
            f"transformers {transformers.__version__} read {len(tokenizer)} tokens from "
            f"{vocabulary}, which has {expected}: take release 5 or later."
        )
    return tokenizer
