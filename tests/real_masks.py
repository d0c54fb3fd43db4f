"""Compares the tokens that real models fill in with the right ones and with transformers'.

    python -m tests.real_masks            # prints both counts
    python -m tests.real_masks reference  # writes the reference; needs torch and transformers

Every token of reactions and antibodies is masked in turn (fixtures/real_weights/make.py has the
reactions and sequences). Our model gets texts with the mask written in them. The reference gets
ids, looked up in the vocabulary one by one.
"""

import itertools
import json
import os
import sys
from pathlib import Path

from tests.fixtures.real_weights.make import ANTIBODIES, REACTIONS, SMILES

REFERENCE = Path(__file__).parent / "fixtures" / "real_weights" / "masks.json"
FOLDERS = {"albert-reactions": "[MASK]", "roberta-antibody": "<mask>"}


def masked(folder):
    """Yields the tokens of a text with one token masked, and the masked token."""
    texts = REACTIONS if folder == "albert-reactions" else ANTIBODIES
    for text in texts:
        tokens = SMILES.findall(text) if folder == "albert-reactions" else list(text)
        for place, token in enumerate(tokens):
            yield [*tokens[:place], FOLDERS[folder], *tokens[place + 1 :]], token


def load(folder, data):
    """Returns the model, with a preprocessor that splits such texts."""
    import keras_bert as kb
    from tests.fewest_tokens import fewest_tokens

    model = kb.load(data / "weights" / folder)
    if folder == "albert-reactions":  # its own tokenizer is a regular expression
        vocabulary = kb.Vocabulary.from_file(data / "weights" / folder / "vocab.txt")
        model.preprocessor = kb.Preprocessor(fewest_tokens(vocabulary), 128)
    return model


def ours(folder, data):
    """Returns the token that our model fills into each mask."""
    from keras_bert.tasks.fill_mask import fill_mask

    texts = ["".join(tokens) for tokens, _ in masked(folder)]
    filled = fill_mask(load(folder, data), texts, top_k=1)
    return [masks[0][0]["token"] for masks in filled]


def theirs(folder, data):
    """Returns the token that transformers' model fills into each mask."""
    import torch
    import transformers

    path = data / "weights" / folder
    if folder == "albert-reactions":
        kind, ends = "Albert", ("[CLS]", "[SEP]")
        vocabulary = (path / "vocab.txt").read_text().split("\n")
    else:
        kind, ends = "Roberta", ("<s>", "</s>")
        ids = json.loads((path / "vocab.json").read_text())
        vocabulary = sorted(ids, key=ids.get)
    model = getattr(transformers, f"{kind}ForMaskedLM").from_pretrained(path).eval()
    filled = []
    for _, rows in itertools.groupby((tokens for tokens, _ in masked(folder)), len):
        batch = [[ends[0], *tokens, ends[1]] for tokens in rows]
        places = [tokens.index(FOLDERS[folder]) for tokens in batch]
        ids = torch.tensor([[vocabulary.index(token) for token in tokens] for tokens in batch])
        with torch.no_grad():
            logits = model(ids).logits[range(len(batch)), places]
        filled += [vocabulary[index] for index in logits.argmax(-1)]
    return filled


def main():
    data = Path(os.environ["KERAS_BERT_DATA"])
    if sys.argv[1:] == ["reference"]:
        filled = {folder: theirs(folder, data) for folder in FOLDERS}
        REFERENCE.write_text(json.dumps(filled) + "\n")
        return
    reference = json.loads(REFERENCE.read_text())
    for folder in FOLDERS:
        masks = [token for _, token in masked(folder)]
        filled = ours(folder, data)
        right, equal = (
            sum(a == b for a, b in zip(filled, expected, strict=True))
            for expected in (masks, reference[folder])
        )
        print(f"{folder}: of {len(masks)} masks, {right} right, {equal} as in transformers")


if __name__ == "__main__":
    main()
