"""Options of a pretraining run, in groups: type, range, default and help of each.

This module knows no objective, no family and no optimizer, and opens no file. `resolve` fills in
defaults and checks the options against each other; `recipes` reads them from YAML.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from keras_bert.options import Count, Names, Number, OptionalCount, OptionalNumber, Options

MAY_CHANGE = "may change"
"""Marks an option that may differ when a run continues."""


class DataOptions(Options):
    """Options of texts, tokens and examples."""

    corpus: Names = Field(
        min_length=1,
        description="Text files, as names or globs: one sentence or paragraph in a line, a blank "
        "line after a document. Or directories that `keras-bert tokenize` wrote.",
    )
    vocabulary: str | None = Field(
        default=None,
        description="Vocabulary of any tokenizer: `vocab.txt`, `vocab.json` with `merges.txt` "
        "beside it, a `*.model` of SentencePiece, or a directory of one of them or of a model. "
        "The default is the vocabulary of `model.init_checkpoint` or `objective.teacher`.",
    )
    lowercase: bool | None = Field(
        default=None,
        description="Whether WordPiece lowercases the text and strips accents; null means yes. "
        "Other tokenizers store this themselves.",
    )
    validation: Names = Field(default=(), description="Held-out text, as `data.corpus`.")
    validation_ratio: Number = Field(
        default=0.01,
        ge=0,
        le=0.5,
        description="Ratio of the corpus to hold out if `data.validation` names no files.",
    )
    validation_examples: Count = Field(
        default=1024, description="Largest number of held-out examples in an evaluation."
    )
    sequence_length: int = Field(
        default=128, ge=8, le=2**31, description="Tokens per example, with special tokens."
    )
    across_documents: bool | None = Field(
        default=None,
        description="Whether a sequence continues into the next document, as RoBERTa's \"full "
        'sentences". Not for objectives with pairs of texts. null means as the family does if '
        "the objective allows it.",
    )
    packed: bool = Field(
        default=False,
        description="Whether a sequence is filled with several documents. Each has its own "
        "`[CLS]`, `[SEP]` and positions, and attends to itself alone. Not for objectives with "
        "pairs of texts, and not with `data.across_documents`.",
    )
    masking_rate: Number = Field(
        default=0.15, ge=1e-3, le=0.9, description="Ratio of the tokens to predict."
    )
    masking: str | None = Field(
        default=None,
        description="Unit that is masked at once: token, word, ngram (one to three words) or "
        "span (one to ten words). null means as the family does.",
    )


class ModelOptions(Options):
    """Options of the encoder."""

    family: str = Field(
        default="",
        description="Family of the encoder, a name in `keras_bert.families`. The default is the "
        "preset's family. With a teacher and without a preset, it is the family whose own "
        "objective is distillation.",
    )
    preset: str | None = Field(
        default=None,
        description="Size of the encoder, a name that `EncoderConfig.preset` takes. The default "
        "is bert_mini. With a teacher, it is the teacher's size with half of its layers.",
    )
    init_checkpoint: str | None = Field(
        default=None,
        description="Model to start from, any that `keras_bert.load` opens: for continued "
        "pretraining, or for a second phase on longer sequences. Its sizes replace a preset's.",
    )
    encoder: dict[str, Any] = Field(
        default={}, description="Options of `EncoderConfig` that differ from the preset."
    )
    vocabulary_size_multiple: Count = Field(
        default=1,
        description="The token embedding's number of rows is a multiple of this number, which "
        "suits matrix units. Rows beyond the vocabulary belong to no token.",
    )


class ObjectiveOptions(Options):
    """Options of the objective."""

    name: str = Field(
        default="",
        description="Objective: mlm, mlm+nsp, mlm+sop, rtd, rtd+gdes, distillation or "
        "distillation-masked. The default is the family's own objective or, with a teacher, "
        "distillation.",
    )
    teacher: str | None = Field(
        default=None, description="Directory of the model to learn from, for distillation."
    )
    generator_size: OptionalNumber = Field(
        default=None,
        gt=0,
        le=1,
        description="Width of the generator as a ratio of the encoder's width, for objectives "
        "with replaced tokens. null means the published value.",
    )
    generator_depth: OptionalNumber = Field(
        default=None,
        gt=0,
        le=1,
        description="Number of the generator's layers as a ratio of the encoder's number. null "
        "means the published value.",
    )


class OptimizerOptions(Options):
    """Options of the update rule."""

    name: str = Field(default="adamw", description="adamw or, for large batches, lamb.")
    learning_rate: Number = Field(
        default=1e-4, ge=0, le=10, description="Learning rate at the end of the warm-up."
    )
    beta_1: Number = Field(default=0.9, ge=0, lt=1, description="Decay rate of the first moment.")
    beta_2: Number = Field(
        default=0.999, ge=0, lt=1, description="Decay rate of the second moment."
    )
    epsilon: Number = Field(
        default=1e-6, gt=0, le=1, description="Number added to the root of the second moment."
    )
    weight_decay: Number = Field(
        default=0.01,
        ge=0,
        le=10,
        description="Decoupled weight decay, not applied to biases and layer normalizations.",
    )
    global_clipnorm: OptionalNumber = Field(
        default=1.0, gt=0, description="Largest norm of the whole gradient, or null."
    )


class ScheduleOptions(Options):
    """Options of the run's length, batch and learning-rate schedule."""

    steps: Annotated[OptionalCount, MAY_CHANGE] = Field(
        default=None, description="Length of the run in updates of the weights. Or give epochs."
    )
    epochs: Annotated[OptionalNumber, MAY_CHANGE] = Field(
        default=None, gt=0, le=2**31, description="Length of the run in passes through the corpus."
    )
    batch_size: Count = Field(default=32, description="Examples per step, over all replicas.")
    first_batch_size: OptionalCount = Field(
        default=None,
        description="Batch size of the first step if the batch grows: it is doubled after equal "
        "numbers of steps until it is `schedule.batch_size`.",
    )
    batch_ramp_steps: OptionalCount = Field(
        default=None, description="Number of steps in which the batch grows."
    )
    warmup_steps: int = Field(
        default=0, ge=0, le=2**31, description="Steps of linear warm-up. Or give warmup_ratio."
    )
    warmup_ratio: OptionalNumber = Field(
        default=None, ge=0, le=1, description="Warm-up as a ratio of the run."
    )
    lr_schedule: str = Field(
        default="linear", description="Learning rate after the warm-up: linear, cosine or constant."
    )
    final_learning_rate: Number = Field(
        default=0.0,
        ge=0,
        le=10,
        description="Learning rate at the end of the run; 0 if `schedule.lr_schedule` is constant.",
    )


class DevicesOptions(Options):
    """Options of where a run computes, and how."""

    strategy: Annotated[str, MAY_CHANGE] = Field(
        default="default",
        description="default (one device), mirrored (all devices of this machine), multi_worker "
        "(several processes, the same command for each; the first one writes, and all read "
        "`output`) or tpu.",
    )
    cluster: Annotated[str, MAY_CHANGE] = Field(
        default="",
        description="How workers find each other. For multi_worker: tf_config (the default, from "
        "that environment variable), slurm or kubernetes. For tpu: the TPU's name.",
    )
    data_service: Annotated[Names, MAY_CHANGE] = Field(
        default=(),
        description="`HOST:PORT` of each `keras-bert data-service` that makes batches, if one "
        "machine is too slow for its accelerators. The corpus must be tokenized.",
    )
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = Field(
        default="float32",
        description="Precision of the computations; mixed_float16 has a dynamic loss scale.",
    )
    gradient_accumulation_steps: Annotated[Count, MAY_CHANGE] = Field(
        default=1,
        description="Number of parts in which a replica computes its batch, to save memory. "
        "Held-out batches are as small.",
    )
    jit_compile: Annotated[bool | None, MAY_CHANGE] = Field(
        default=None,
        description="Whether XLA compiles the forward and backward pass. null means on GPUs only; "
        "on CPUs XLA is slower, and TPUs always use it.",
    )
    peak_teraflops: Annotated[OptionalNumber, MAY_CHANGE] = Field(
        default=None,
        gt=0,
        description="Peak of a replica's device in TFLOP/s, from which the utilization is "
        "computed. null means the peak known for the name of a GPU or TPU.",
    )


class LoggingOptions(Options):
    """Options of how often a run logs, evaluates and saves."""

    steps_per_loop: Annotated[Count, MAY_CHANGE] = Field(
        default=10, description="Steps between two lines of the log."
    )
    evaluate_every: Annotated[OptionalCount, MAY_CHANGE] = Field(
        default=None,
        description="Steps between two evaluations. null means only before and after the run.",
    )
    checkpoint_every: Annotated[Count, MAY_CHANGE] = Field(
        default=1000, description="Steps between two checkpoints."
    )
    keep_checkpoints: Annotated[Count, MAY_CHANGE] = Field(
        default=2,
        description="Number of checkpoints to keep, beside the one with the lowest held-out loss "
        "and, if the loss rises, the last one before the rise.",
    )


class PretrainingConfig(Options):
    """Configuration of a pretraining run.

    `keras_bert.pretraining.resolve.resolve` fills in the defaults that depend on the family, the
    objective or a checkpoint. Making a configuration reads and writes nothing.

    Args:
        output: directory of the run: checkpoints, logs and, at the end, `model`.
        seed: seed of weights, pairs, masks and dropout.
        data: texts, tokens and examples.
        model: the encoder.
        objective: what is learned.
        optimizer: the update rule.
        schedule: length, batch and learning-rate schedule.
        devices: where the run computes, and how.
        logging: how often the run logs, evaluates and saves.

    Raises:
        InputError: if an option is unknown, missing, of another type or out of its range.

    Example:
        >>> config = PretrainingConfig(
        ...     data={"corpus": "text/*.txt", "vocabulary": "vocab.txt"},
        ...     output="run",
        ...     schedule={"steps": 1000},
        ... )
        >>> config.optimizer.learning_rate
        0.0001
    """

    output: Annotated[str, MAY_CHANGE] = Field(
        description="Directory of the run: checkpoints, logs and, at the end, `model`."
    )
    seed: int = Field(
        default=0, ge=0, le=2**31 - 1, description="Seed of weights, masks and dropout."
    )
    data: DataOptions
    model: ModelOptions = ModelOptions()
    objective: ObjectiveOptions = ObjectiveOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    schedule: ScheduleOptions = ScheduleOptions()
    devices: DevicesOptions = DevicesOptions()
    logging: LoggingOptions = LoggingOptions()
