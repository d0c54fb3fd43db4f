"""Fine-tuning: trains a model on labeled examples of a task, measures it and saves it.

    from keras_bert import finetuning

    examples = finetuning.read("classifier", "train.csv")
    model = finetuning.new_model("classifier", "pretrained", examples)
    train, validation = finetuning.hold_out(examples, 0.1)
    result = finetuning.fine_tune(model, train, validation, output="run")

Each name of this package is imported when it is first used.
"""

from keras_bert.extras import lazy_names

_MODULES = {
    "GLUE": "readers.glue",
    "ChoiceExamples": "examples",
    "Columns": "examples",
    "Examples": "examples",
    "QuestionExamples": "examples",
    "Recipe": "recipe",
    "Result": "result",
    "TaggedExamples": "examples",
    "TextExamples": "examples",
    "embedder_arguments": "targets",
    "evaluate": "evaluation",
    "fine_tune": "training",
    "hold_out": "examples",
    "label_names": "targets",
    "label_report": "evaluation",
    "new_model": "tasks",
    "predict": "evaluation",
    "problem_type_of": "targets",
    "read": "tasks",
    "read_choices": "readers.choices",
    "read_conll": "readers.tagged",
    "read_examples": "readers.texts",
    "read_glue": "readers.glue",
    "read_intents": "readers.snips",
    "read_questions": "readers.questions",
    "read_slots": "readers.snips",
    "read_tagged": "readers.tagged",
    "report": "evaluation",
    "resolve": "defaults",
    "targets_of": "targets",
    "write_predictions": "readers.questions",
}

__all__ = sorted(_MODULES)

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
