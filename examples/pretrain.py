"""Pretrain an encoder on text files, on one device or on all of this machine.

    python examples/pretrain.py "text/*.txt" --output run --strategy mirrored
    python examples/pretrain.py "text/*.txt" --output run --family electra

Learns a vocabulary first. Stop it when you like: started again, it goes on where it was, and ends
with the same weights.
"""

import argparse
from pathlib import Path

import keras_bert as kb
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.trainer import pretrain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", nargs="+", help="files or globs; blank lines end documents")
    parser.add_argument("--output", type=Path, default=Path("run"))
    parser.add_argument("--strategy", default="default", choices=["default", "mirrored"])
    parser.add_argument("--preset", default="bert_mini", help="the size: bert_tiny ... bert_large")
    parser.add_argument("--family", default="", help="bert, roberta, albert, electra, deberta-v2")
    parser.add_argument("--objective", default="", help="by default that of the family")
    parser.add_argument("--vocabulary-size", type=int, default=8192)
    parser.add_argument("--length", type=int, default=128, help="of an example, in tokens")
    parser.add_argument("--batch-size", type=int, default=32, help="over all devices")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--precision", default="float32", choices=["float32", "mixed_bfloat16"])
    arguments = parser.parse_args()

    vocabulary = arguments.output.with_name(f"{arguments.output.name}-vocab.txt")
    if not vocabulary.exists():
        kb.learn_vocabulary(arguments.corpus, arguments.vocabulary_size).save(vocabulary)
    config = PretrainingConfig(
        corpus=tuple(arguments.corpus),
        vocabulary=str(vocabulary),
        output=str(arguments.output),
        preset=arguments.preset,
        family=arguments.family,
        objective=arguments.objective,
        sequence_length=arguments.length,
        batch_size=arguments.batch_size,
        steps=arguments.steps,
        warmup_steps=arguments.steps // 100,
        strategy=arguments.strategy,
        precision=arguments.precision,
    )
    results = pretrain(config)
    print(f"held out, before: {results['before']}\nheld out, after:  {results['after']}")
    print(f"model: {results['model'] or 'interrupted; start again to go on'}")


if __name__ == "__main__":
    main()
