"""Write a classifier to TFLite files for phones, and compare their size, speed and answers.

python examples/mobile.py reviews/model mobile "A warm and funny film." "I want my money back."
"""

import argparse
from pathlib import Path

import keras_bert as kb
from keras_bert import export
from keras_bert.export._tflite.convert import tflite_runner

QUANTIZATIONS = ("none", "float16", "dynamic")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="directory of a classifier")
    parser.add_argument("output", type=Path, help="directory for the files")
    parser.add_argument("texts", nargs="+", help="texts to compare them on")
    parser.add_argument("--length", type=int, default=64, help="fixed number of tokens of a text")
    arguments = parser.parse_args()

    model = kb.load(arguments.model)
    paths = {name: arguments.output / f"classifier-{name}.tflite" for name in QUANTIZATIONS}
    for quantize, path in paths.items():
        export.tflite(model, path, quantize=quantize, sequence_length=arguments.length)
    print(export.verify(model, list(paths.values()), arguments.texts))

    # The app does the same: it makes ids with vocab.txt, runs the file, and reads the scores.
    preprocessor = model.preprocessor.with_length(arguments.length, padding="max_length")
    ids = preprocessor(arguments.texts)
    run = tflite_runner(paths["dynamic"])
    scores = run({name: array.numpy() for name, array in ids.items()})["scores"]
    for text, row in zip(arguments.texts, scores, strict=True):
        print(f"{model.labels[row.argmax()]} ({row.max():.2f}): {text}")
    model.preprocessor.vocabulary.save(arguments.output / "vocab.txt")


if __name__ == "__main__":
    main()
