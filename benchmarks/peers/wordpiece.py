"""Load Hugging Face's tokenizer of a vocab.txt."""

import transformers


def load(vocabulary):
    """Returns the fast tokenizer.

    Release 5 of transformers has the argument `vocab`, release 4 had `vocab_file`. Each release
    ignores the other's argument without a message, and then every word is `[UNK]`.

    Raises:
        ValueError: if the tokenizer has not read the vocabulary.
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
