"""Fine-tune a classifier with plain `model.fit`, on a CSV file with the columns text and label.

    python examples/fit.py reviews.csv --encoder run/model --output classifier

Without --encoder, a small encoder with random weights is trained. Its vocabulary is the file's
words.
"""

import argparse

import keras

import keras_bert as kb
from keras_bert.finetuning import hold_out, label_names, read_examples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="CSV, TSV or JSONL")
    parser.add_argument("--encoder", help="directory of a model of keras_bert or Hugging Face")
    parser.add_argument("--output", default="classifier")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--length", type=int, default=128, help="maximum tokens of a text")
    arguments = parser.parse_args()

    examples = read_examples(arguments.data)
    labels = label_names(examples, "single_label")
    train, validation = hold_out(examples, 0.1)
    if arguments.encoder:
        encoder = kb.load(arguments.encoder, task="encoder")
        preprocessor = encoder.preprocessor.with_length(arguments.length)
    else:
        encoder, preprocessor = from_nothing(train.texts, arguments.length)
    model = kb.SequenceClassifier(encoder, labels=labels, preprocessor=preprocessor)

    model.compile(
        keras.optimizers.AdamW(5e-5 if arguments.encoder else 5e-4),
        model.default_loss(),
        metrics=["accuracy"],
    )
    held_out = (validation.texts, validation.labels)
    model.fit(train.texts, train.labels, epochs=arguments.epochs, validation_data=held_out)
    texts = list(validation.texts[:3])
    for text, answer in zip(texts, model.predict_text(texts), strict=True):
        print(f"{answer['label']} ({answer['score']:.2f}): {text}")
    kb.save(model, arguments.output)


def from_nothing(texts, length):
    """Makes an encoder with random weights; a pretrained encoder is better."""
    words = sorted({word for text in texts for word in text.lower().split()})
    vocabulary = kb.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    config = kb.EncoderConfig.preset("bert_tiny", vocabulary_size=len(vocabulary))
    return kb.Encoder(config), kb.Preprocessor(kb.WordPiece(vocabulary), length)


if __name__ == "__main__":
    main()
