"""The table of families in docs/guides/families.md: each value is measured here.

The references are not ours: transformers, and the tokenizers of Hugging Face.

`KERAS_BERT_DATA=... python -m tests.families` prints it in Markdown.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import keras_bert as kb
from keras_bert.checkpoints.variables import without_weights
from keras_bert.export.artifact_checks import difference, reference
from keras_bert.export.signatures import input_names
from keras_bert.families import FAMILIES
from tests.checkpoints.huggingface import FIXTURES, FOLDERS, differences
from tests.export.test_formats import FORMATS
from tests.text import stress

NAMES = {  # family to its name, and its tokenizer's folder of reference ids
    "bert": ("BERT", "bert-base-uncased"),
    "roberta": ("RoBERTa", "roberta-base"),
    "xlm-roberta": ("XLM-R", None),
    "camembert": ("CamemBERT", None),
    "distilbert": ("DistilBERT", "bert-base-uncased"),
    "albert": ("ALBERT v1, v2", None),
    "electra": ("ELECTRA", "bert-base-uncased"),
    "deberta": ("DeBERTa", "roberta-base"),
    "deberta-v2": ("DeBERTa v2, v3", "deberta-v3"),
    "ernie": ("ERNIE", "bert-base-uncased"),
    "megatron-bert": ("Megatron-BERT", "bert-base-uncased"),
    "xlm-roberta-xl": ("XLM-R XL", None),
    "mpnet": ("MPNet", None),
    "nomic_bert": ("Nomic BERT", "bert-base-uncased"),
    "gte": ("GTE", None),
    "jina_embeddings_v3": ("Jina v3", None),
    "modernbert": ("ModernBERT", None),
    "eurobert": ("EuroBERT", None),
}
TOKENIZERS = {"wordpiece": "WordPiece", "byte_pair": "byte BPE", "sentencepiece": "SentencePiece"}
COLUMNS = (
    "family",
    "presets",
    "heads",
    "tokenizer",
    "objectives",
    "SavedModel",
    "TFLite",
    "ONNX",
)


def row(family: str, data: Path) -> tuple[str, ...]:
    name, vocabulary = NAMES[family]
    folders = [folder for folder in FOLDERS if _family(folder) == family]
    largest = max(max(differences(kb.load(FIXTURES / f), f).values()) for f in folders)
    return (
        name,
        parameters(family),
        f"{len(folders)}: {largest:.0e}",
        f"{TOKENIZERS[FAMILIES[family].TEXT['tokenizer']]}{tokens(vocabulary, data)}",
        ", ".join(FAMILIES[family].OBJECTIVES),
        *(f"{difference:.0e}" for difference in exports(folders)),
    )


def parameters(family: str) -> str:
    """How many presets have the reference's number of parameters."""
    counts = json.loads((FIXTURES.parent / "parameters" / "counts.json").read_text())
    presets = FAMILIES[family].PRESETS
    with without_weights():
        equal = [
            kb.Encoder(kb.EncoderConfig.preset(name)).count_params() == counts[name]
            for name in presets
        ]
    sizes = [counts[name] / 1e6 for name in presets]
    range_of = dict.fromkeys(f"{size:.0f}" for size in (min(sizes), max(sizes)))
    return f"{sum(equal)} of {len(presets)}, {' to '.join(range_of)} M"


def tokens(vocabulary: str | None, data: Path) -> str:
    """Lines whose ids differ from the reference's, of ordinary prose and of all."""
    if vocabulary is None:
        return ""
    sources = [line["src"] for line in stress.stress_lines(data)]
    different = [
        source for source, kind, _ in stress.differing_lines(data, vocabulary) if kind == "ids"
    ]
    of_prose, prose = (
        sum(source.startswith(stress.ORDINARY) for source in x) for x in (different, sources)
    )
    return f": {of_prose} of {prose:,}, {len(different)} of {len(sources):,}"


def exports(folders: list[str]) -> Iterator[float]:
    """For each format, the largest difference to Keras over the models of a family."""
    rng = np.random.default_rng(0)
    for save, runner in FORMATS.values():
        largest = 0.0
        for folder in folders:
            model = kb.load(FIXTURES / folder)
            names = input_names(model)
            ids = {name: np.zeros((3, 9), "int32") for name in names}
            ids["token_ids"] = rng.integers(0, model.config.vocabulary_size, (3, 9), "int32")
            ids["padding_mask"] = (np.arange(9) < [[9], [5], [2]]).astype("int32")
            with tempfile.TemporaryDirectory() as directory:
                path = Path(directory) / "model"
                save(model, path)
                actual = {name: np.asarray(x) for name, x in runner(path)(ids).items()}
                largest = max(largest, difference(reference(model, ids), actual))
        yield largest


def main() -> None:
    data = Path(os.environ["KERAS_BERT_DATA"])
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for family in FAMILIES:
        print(f"| {' | '.join(row(family, data))} |", flush=True)


def _family(folder: str) -> str:
    """The family of a folder of fixtures, whose name begins with it."""
    return max((name for name in FAMILIES if folder.startswith(f"{name}-")), key=len)


if __name__ == "__main__":
    main()
