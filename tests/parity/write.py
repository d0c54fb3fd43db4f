"""Writes models of every head for other libraries, with inputs and our outputs beside them.

    python -m tests.parity.write DIRECTORY

makes `huggingface/NAME` and `keras-hub/NAME`, and in each a `reference.safetensors`.
"""

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import keras_bert as kb
from keras_bert.families import FAMILIES
from keras_bert.tasks.registry import TASKS as CLASSES

TEXTS = ["Plain words, and some more!", "café [naïve] 中文", ""]
CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?:;-()"
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *CHARACTERS, "##o", "##l", "plain")
LABELS = ("no", "maybe", "yes")

TASKS = {
    "encoder": lambda e: e,
    "pretraining": kb.PretrainingModel,
    "masked-lm": kb.MaskedLanguageModel,
    "masked-lm-untied": lambda e: kb.MaskedLanguageModel(e, tied=False),
    "next-sentence": kb.NextSentencePredictor,
    "classifier": lambda e: kb.SequenceClassifier(e, labels=LABELS, dropout=0.2),
    "multi-label": lambda e: kb.SequenceClassifier(e, labels=LABELS, problem_type="multi_label"),
    "regression": lambda e: kb.SequenceClassifier(e, 1, problem_type="regression"),
    "token_classifier": lambda e: kb.TokenClassifier(e, labels=LABELS),
    "span_classifier": kb.SpanClassifier,
    "multiple-choice": kb.MultipleChoice,
}
KERAS_HUB = {
    "encoder": TASKS["encoder"],
    "classifier": TASKS["classifier"],
    "masked-lm": lambda e: kb.MaskedLanguageModel(e, activation="gelu", layer_norm_epsilon=1e-5),
}
ENCODERS = {
    "gelu": {},
    "gelu_tanh": {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-5, "num_heads": 2},
    "relu": {"activation": "relu", "num_layers": 4, "hidden_dropout": 0.3},
    "silu": {"activation": "silu", "num_segments": 3, "attention_dropout": 0.0},
}
TOKENIZERS = {
    "cased": {"lowercase": False},
    "accents": {"lowercase": True, "strip_accents": False},
    "no-accents": {"lowercase": False, "strip_accents": True},
    "cjk": {"split_cjk": False},
    "limit": {"max_characters_per_word": 4},
}


ARGUMENTS = {"classifier": {"labels": LABELS}, "token_classifier": {"labels": LABELS}}


def make_model(task, tokenizer=None, **changes):
    """A model with random weights and a preprocessor."""
    vocabulary = kb.Vocabulary(VOCABULARY)
    sizes = {"hidden_size": 24, "num_layers": 2, "num_heads": 4, "intermediate_size": 40}
    sizes |= {"vocabulary_size": len(vocabulary), "max_positions": 32}
    config = kb.EncoderConfig(**sizes | changes)
    model = task(kb.Encoder(config))
    generator = np.random.default_rng(len(str(changes)))
    for variable in model.weights:
        variable.assign(generator.normal(0.0, 0.4, variable.shape))
    wordpiece = kb.WordPiece(vocabulary, **tokenizer or {})
    model.preprocessor = kb.Preprocessor(wordpiece, 20, padding="max_length")
    return model


def of_family(family, task):
    """A model of a family for a task, without a preprocessor."""
    traits, fields = family.TRAITS, family.HUGGING_FACE_CONFIG
    changes = {key: value for key, value in traits.items() if key != "max_positions"}
    if "embedding_size" in fields and not changes.get("projection_first"):
        changes["embedding_size"] = 16
    if family.HUGGING_FACE_TASKS[task].pooled:
        changes["pooler"] = True
    if "num_task_types" in fields and task == "encoder":
        changes["num_task_types"] = 3

    def make(encoder):
        if task == "encoder":
            return encoder
        return CLASSES[task].model_class(encoder, **ARGUMENTS.get(task, {}))

    model = make_model(make, **changes)
    model.preprocessor = None
    return model


def write(model, directory, format):
    """The model's directory and what it computes for `TEXTS` and random ids."""
    kb.save(model, directory, format=format)
    random, tokens = np.random.default_rng(0), {}
    texts = {} if model.preprocessor is None else model.preprocessor(TEXTS)
    shape = (2, 3, 9) if isinstance(model, kb.MultipleChoice) else (3, 9)
    inputs = {
        "token_ids": random.integers(0, len(VOCABULARY), shape),
        "segment_ids": random.integers(0, max(1, model.config.num_segments), shape),
        "padding_mask": np.arange(9) < random.integers(1, 10, (*shape[:-1], 1)),
    }
    inputs = {name: value.astype("int32") for name, value in inputs.items()}
    padding = model.config.position_offset - 1
    if padding > 0:  # transformers counts positions by the padding's id
        ids = inputs["token_ids"]
        ids[ids == padding] += 1
        ids[inputs["padding_mask"] == 0] = padding
    if not model.config.num_segments:
        del inputs["segment_ids"]
    outputs = model(inputs)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    for kind, values in (("texts", texts), ("input", inputs), ("output", outputs)):
        tokens |= {f"{kind}.{name}": np.asarray(value) for name, value in values.items()}
    save_file(tokens, directory / "reference.safetensors")


def main(directory):
    for name, task in TASKS.items():
        write(make_model(task), Path(directory, "huggingface", name), "huggingface")
    for name, changes in ENCODERS.items():
        model = make_model(TASKS["encoder"], **changes)
        write(model, Path(directory, "huggingface", f"encoder-{name}"), "huggingface")
    for name, family in FAMILIES.items():
        for task in family.HUGGING_FACE_TASKS if name != "bert" else ():
            model = of_family(family, task)
            write(model, Path(directory, "huggingface", f"{name}-{task}"), "huggingface")
    for name, tokenizer in TOKENIZERS.items():
        model = make_model(TASKS["encoder"], tokenizer)
        write(model, Path(directory, "huggingface", f"tokenizer-{name}"), "huggingface")
    for name, task in KERAS_HUB.items():
        model = make_model(task, activation="gelu_tanh")
        write(model, Path(directory, "keras-hub", name), "keras-hub")


if __name__ == "__main__":
    main(sys.argv[1])
