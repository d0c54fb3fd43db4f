"""Pretrain an encoder on text files, on one device or on many.

    python examples/pretrain.py "text/*.txt" --output run --strategy mirrored
    python examples/pretrain.py "text/*.txt" --output run --family electra

Learns a vocabulary first. Stop it when you like: started again, it goes on where it was, and ends
with the same weights. Workers of `--strategy multi_worker` must find the vocabulary: begin with a
short run on one device, or launch `keras-bert pretrain` as `examples/launch` does.
"""

import argparse
from pathlib import Path
from typing import get_args

import keras_bert as kb
from keras_bert.options import fields, set_option
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.resolve import CHOICES
from keras_bert.pretraining.training.trainer import pretrain

# The options of a run that have names to choose from; by default the family's or the plainest.
CHOSEN = {
    "family": "model.family",
    "objective": "objective.name",
    "strategy": "devices.strategy",
    "precision": "devices.precision",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", nargs="+", help="files or globs; blank lines end documents")
    parser.add_argument("--output", type=Path, default=Path("run"))
    parser.add_argument("--preset", default="bert_mini", help="the size: bert_tiny ... bert_large")
    for option, name in CHOSEN.items():
        field = fields(PretrainingConfig)[name]
        choices, default = CHOICES.get(name) or get_args(field.annotation), field.default
        parser.add_argument(f"--{option}", choices=choices, default=default)
    parser.add_argument("--vocabulary-size", type=int, default=8192)
    parser.add_argument("--length", type=int, default=128, help="of an example, in tokens")
    parser.add_argument("--batch-size", type=int, default=32, help="over all devices")
    parser.add_argument("--steps", type=int, default=10_000)
    arguments = parser.parse_args()

    vocabulary = arguments.output.with_name(f"{arguments.output.name}-vocab.txt")
    if not vocabulary.exists():
        kb.learn_vocabulary(arguments.corpus, arguments.vocabulary_size).save(vocabulary)
    options = {
        "output": str(arguments.output),
        "data": {
            "corpus": arguments.corpus,
            "vocabulary": str(vocabulary),
            "sequence_length": arguments.length,
        },
        "model": {"preset": arguments.preset},
        "schedule": {
            "batch_size": arguments.batch_size,
            "steps": arguments.steps,
            "warmup_steps": arguments.steps // 100,
        },
    }
    for option, name in CHOSEN.items():
        set_option(options, name, getattr(arguments, option))
    results = pretrain(PretrainingConfig.from_dict(options))
    print(f"held out, before: {results['before']}\nheld out, after:  {results['after']}")
    print(f"model: {results['model'] or 'interrupted; start again to go on'}")


if __name__ == "__main__":
    main()
