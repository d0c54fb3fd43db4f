"""Learn a vocabulary and pretrain an encoder on text files, on one device or on many.

    python examples/pretrain.py "text/*.txt" --output run --strategy mirrored
    python examples/pretrain.py "text/*.txt" --output run --family electra

You can stop the run at any time. The same command continues it, and on CPUs the final weights are
the same as without the stop.

With `--strategy multi_worker`, the vocabulary must exist before the workers start. Run a few steps
on one device first, or use `keras-bert pretrain` as `examples/launch` does.
"""

import argparse
from pathlib import Path
from typing import get_args

import keras_bert as kb
from keras_bert.options import fields, set_option
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.resolve import CHOICES
from keras_bert.pretraining.training.trainer import pretrain

# Options of this script that have a fixed set of values, with the option of the run for each.
CHOSEN = {
    "family": "model.family",
    "objective": "objective.name",
    "strategy": "devices.strategy",
    "precision": "devices.precision",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", nargs="+", help="files or patterns; blank lines end documents")
    parser.add_argument("--output", type=Path, default=Path("run"))
    parser.add_argument(
        "--preset", default="bert_mini", help="size of the model: bert_tiny to bert_large"
    )
    for option, name in CHOSEN.items():
        field = fields(PretrainingConfig)[name]
        choices, default = CHOICES.get(name) or get_args(field.annotation), field.default
        parser.add_argument(f"--{option}", choices=choices, default=default)
    parser.add_argument("--vocabulary-size", type=int, default=8192)
    parser.add_argument("--length", type=int, default=128, help="tokens of an example")
    parser.add_argument("--batch-size", type=int, default=32, help="examples of all devices")
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
    print(f"model: {results['model'] or 'interrupted; the same command continues the run'}")


if __name__ == "__main__":
    main()
