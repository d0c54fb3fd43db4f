"""Jobs: how the models of each task are fine-tuned on labeled examples.

There is one module for each task. The module has the name of the task and defines `JOB`.
"""

import importlib
from typing import Any

from keras_bert.errors import InputError, closest
from keras_bert.finetuning.jobs.job import Job, PerRow, PerToken, Targets
from keras_bert.tasks.registry import FINE_TUNED, class_names, task_of


def job_of(model: Any) -> Job:
    """Returns the job of a model's task.

    Raises:
        InputError: if the task has no job.
    """
    task = task_of(model)
    if task not in FINE_TUNED:
        raise InputError(
            f"A {type(model).__name__} cannot be fine-tuned or measured on examples; give one of "
            f"{class_names(FINE_TUNED)}."
        )
    return job_of_task(task)


def job_of_task(task: str) -> Job:
    """Imports and returns the job of the task with this name.

    Raises:
        InputError: if no task that can be fine-tuned has this name.
    """
    if task not in FINE_TUNED:
        raise InputError(
            f"There is no task {task!r} to fine-tune.{closest(task, FINE_TUNED)} The tasks are "
            f"{', '.join(FINE_TUNED)}."
        )
    return importlib.import_module(f"{__name__}.{task}").JOB


__all__ = ["Job", "PerRow", "PerToken", "Targets", "job_of", "job_of_task"]
