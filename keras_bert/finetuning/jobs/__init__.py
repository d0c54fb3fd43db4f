"""The jobs: what is fine-tuned, by kind of model.

Every module here but `job` defines `JOB`.
"""

import importlib
from typing import Any

from keras_bert.errors import InputError
from keras_bert.finetuning.jobs.job import Job, PerRow, PerToken, Targets

MODULES = {
    "SequenceClassifier": "classifier",
    "TokenClassifier": "token_classifier",
    "SpanClassifier": "span_classifier",
    "MultipleChoice": "multiple_choice",
    "TextEmbedder": "embedder",
}
"""Class of the model to the module with its job; imported when it is needed."""


def job_of(model: Any) -> Job:
    """The job of a model.

    Raises:
        InputError: if it has none.
    """
    for kind in type(model).__mro__:
        if kind.__name__ in MODULES:
            return importlib.import_module(f"{__name__}.{MODULES[kind.__name__]}").JOB
    raise InputError(
        f"A {type(model).__name__} cannot be fine-tuned on examples; what can is a "
        f"{', '.join(MODULES)}."
    )


__all__ = ["Job", "PerRow", "PerToken", "Targets", "job_of"]
