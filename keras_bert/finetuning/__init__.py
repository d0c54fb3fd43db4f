"""From labelled examples, of any task, to a model that is measured and saved.

from keras_bert.finetuning import Recipe, fine_tune, hold_out, label_names, read_examples

train, validation = hold_out(read_examples("train.csv"), 0.1)
names = label_names(train, "single_label")
model = keras_bert.load("pretrained", task="classifier", labels=names)
result = fine_tune(model, train, validation, recipe=Recipe(epochs=3), output="run")
"""

from keras_bert.finetuning.evaluation import evaluate, predict
from keras_bert.finetuning.examples import (
    ChoiceExamples,
    Columns,
    Examples,
    QuestionExamples,
    TaggedExamples,
    TextExamples,
    hold_out,
)
from keras_bert.finetuning.readers.choices import read_choices
from keras_bert.finetuning.readers.conll import read_conll
from keras_bert.finetuning.readers.glue import GLUE, read_glue
from keras_bert.finetuning.readers.questions import read_questions
from keras_bert.finetuning.readers.snips import read_intents, read_slots
from keras_bert.finetuning.readers.squad import write_predictions
from keras_bert.finetuning.readers.tagged import read_tagged
from keras_bert.finetuning.readers.texts import read_examples
from keras_bert.finetuning.recipe import Recipe
from keras_bert.finetuning.result import Result
from keras_bert.finetuning.targets import (
    embedder_arguments,
    label_names,
    problem_type_of,
    targets_of,
)
from keras_bert.finetuning.training import fine_tune

__all__ = [
    "GLUE",
    "ChoiceExamples",
    "Columns",
    "Examples",
    "QuestionExamples",
    "Recipe",
    "Result",
    "TaggedExamples",
    "TextExamples",
    "embedder_arguments",
    "evaluate",
    "fine_tune",
    "hold_out",
    "label_names",
    "predict",
    "problem_type_of",
    "read_choices",
    "read_conll",
    "read_examples",
    "read_glue",
    "read_intents",
    "read_questions",
    "read_slots",
    "read_tagged",
    "targets_of",
    "write_predictions",
]
