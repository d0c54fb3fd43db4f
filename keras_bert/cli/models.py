"""What the tasks of the command line need: a model, its options, and how answers are shown."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from keras_bert.errors import InputError


class Kind(NamedTuple):
    """A task of the command line.

    Args:
        model: the class of its models.
        task: their name for `keras_bert.load`.
        keeps_head: whether a head that was trained before is trained on; else it is a new one.
        noun: what to call one of them.
        options: names of the options that say what the model is.
        arguments: examples to learn from, others, and those options to the arguments of the
            model's constructor.
        shown: examples and an index to what is printed beside a prediction.
    """

    model: str
    task: str
    keeps_head: bool
    noun: str
    options: tuple[str, ...]
    arguments: Callable[..., dict[str, Any]]
    shown: Callable[[Any, int], dict[str, Any]]


def load_model(
    path: str, as_task: str | None = None, null_threshold: float | None = None
) -> tuple[str, Any]:
    """A model that was fine-tuned, and the name of its task.

    Args:
        path: of the model.
        as_task: "similarity" opens any encoder as an embedder.
        null_threshold: takes the place of the model's.

    Raises:
        InputError: if there is no model, or it is another one, or it cannot take texts.
    """
    import keras_bert

    model = keras_bert.load(path, task=task_of(path, as_task))
    task = next((name for name, kind in KINDS.items() if kind.model == type(model).__name__), None)
    if task is None:
        *nouns, last = (kind.noun for kind in KINDS.values())
        raise InputError(
            f"{path} is a {type(model).__name__}, which predicts nothing about texts; make "
            f"{', '.join(nouns)} or {last} of it with keras-bert finetune, or open it as an "
            "embedder with --task similarity."
        )
    if model.preprocessor is None:
        raise InputError(f"{path} has no vocabulary beside it, so it cannot take texts.")
    if null_threshold is not None:
        if task != "answer":
            raise InputError(f"{path} is {KINDS[task].noun}, so it has no --null-threshold.")
        model.null_threshold = null_threshold
    return task, model


def task_of(path: str, as_task: str | None) -> str | None:
    """The `task` of `keras_bert.load` for what a command is to open, None for the saved one.

    A directory of sentence-transformers is used as what it is, an embedder.
    """
    if as_task is not None:
        return KINDS[as_task].task
    return "embedder" if _saved_task(path) == "embedder" else None


def new_model(
    path: str, arguments: Mapping[str, Any], task: str, sequence_length: int | None, dtype: str
) -> Any:
    """A model to train: the encoder at the path, and the head there or, for new labels, a new one.

    Args:
        path: of the encoder, whatever its head.
        arguments: of the model's constructor.
        task: a key of `KINDS`.
        sequence_length: tokens of the longest text; None for the preprocessor's.
        dtype: in which it computes.
    """
    import keras_bert

    kind = KINDS[task]
    if kind.keeps_head and (task == "similarity" or _saved_task(path) == kind.task):
        model = keras_bert.load(path, task=kind.task, dtype=dtype, **arguments)
    else:
        encoder = keras_bert.load(path, task="encoder", dtype=dtype)
        encoder = getattr(encoder, "encoder", encoder)  # a .keras file is opened as it is
        constructor = getattr(keras_bert, kind.model)
        model = constructor(encoder, preprocessor=encoder.preprocessor, **arguments)
    if model.preprocessor is not None and sequence_length:
        model.preprocessor = model.preprocessor.with_length(sequence_length)
    return model


def _saved_task(path: str) -> str:
    """The task whose head a directory has."""
    from keras_bert.checkpoints import open_checkpoint

    return "" if path.endswith(".keras") else open_checkpoint(path)[1].task


def to_measure(path: str, model: Any, examples: Any) -> Any:
    """The model; where pairs have scores, an embedder that learned without is judged by cosines."""
    scored = getattr(examples, "pairs", None) is not None and examples.labels is not None
    if not scored or getattr(model, "objective", None) != "contrastive":
        return model
    import keras_bert
    from keras_bert.finetuning.targets import embedder_arguments

    arguments = embedder_arguments(examples, objective="cosine")
    return keras_bert.load(path, task="embedder", **arguments)


def _classify(
    train: Any, *others: Any, problem: str | None = None, pooling: str | None = None
) -> dict[str, Any]:
    from keras_bert.finetuning.targets import label_names, problem_type_of

    problem = problem or problem_type_of(train)
    return {"labels": label_names(train, problem), "problem_type": problem, "pooling": pooling}


def _tag(train: Any, *others: Any, scheme: str | None = None, **options: Any) -> dict[str, Any]:
    """All tags that the labels of entities can have, whether they occur or not.

    IOB1 is written as IOB2 unless it is asked for: it hardly ever needs its B, so that no model
    would learn it.
    """
    from keras_bert.tasks.entities import detect_scheme, spans_of, tag_of

    detected = detect_scheme(train.tags)
    scheme = scheme or ("iob2" if detected == "iob1" else detected)
    labels = sorted({tag for tags in train.tags for tag in tags})
    if scheme is not None:
        names = sorted({name for tags in train.tags for name, *_ in spans_of(tags)})
        prefixes = "BIES" if scheme == "bioes" else "BI"
        labels = ["O", *(tag_of(prefix, name) for name in names for prefix in prefixes)]
    return {"labels": labels, "scheme": scheme, **options}


def _answer(train: Any, *others: Any, null_threshold: float | None = None) -> dict[str, Any]:
    """A model may leave a question without answer if it has seen some that have none."""
    if null_threshold is None and not all(train.answers):
        null_threshold = 0.0
    return {"null_threshold": null_threshold}


def _choice(*examples: Any) -> dict[str, Any]:
    return {}


def _similarity(
    *examples: Any,
    loss: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    from keras_bert.finetuning.targets import embedder_arguments

    return {**embedder_arguments(*examples, objective=loss), **options}


def _show_text(examples: Any, index: int) -> dict[str, Any]:
    pairs = getattr(examples, "pairs", None)
    pair = {} if pairs is None else {"pair": pairs[index]}
    return {"text": examples.texts[index], **pair}


def _show_question(examples: Any, index: int) -> dict[str, Any]:
    return {"id": examples.ids[index], "question": examples.questions[index]}


def _show_context(examples: Any, index: int) -> dict[str, Any]:
    return {"context": examples.contexts[index]}


KINDS = {
    "classify": Kind(
        model="SequenceClassifier",
        task="classifier",
        keeps_head=False,
        noun="a classifier",
        options=("problem", "pooling"),
        arguments=_classify,
        shown=_show_text,
    ),
    "tag": Kind(
        model="TokenClassifier",
        task="token_classifier",
        keeps_head=False,
        noun="a tagger",
        options=("crf", "scheme", "continue_labels"),
        arguments=_tag,
        shown=_show_text,
    ),
    "answer": Kind(
        model="SpanClassifier",
        task="span_classifier",
        keeps_head=True,
        noun="a model that answers",
        options=("null_threshold",),
        arguments=_answer,
        shown=_show_question,
    ),
    "choice": Kind(
        model="MultipleChoice",
        task="multiple_choice",
        keeps_head=True,
        noun="a model that chooses",
        options=(),
        arguments=_choice,
        shown=_show_context,
    ),
    "similarity": Kind(
        model="TextEmbedder",
        task="embedder",
        keeps_head=True,
        noun="an embedder",
        options=("loss", "pooling", "score_range"),
        arguments=_similarity,
        shown=_show_text,
    ),
}
