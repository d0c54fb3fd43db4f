"""Options of a pretraining run, in groups: type, range, default and help of each.

This module does not depend on objectives, families or optimizers, and opens no file. `resolve`
fills in defaults and checks that the options fit together. `recipes` reads options from YAML.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from keras_bert.options import Count, Names, Number, Numbers, OptionalCount, OptionalNumber, Options

MAY_CHANGE = "may change"
"""Marks an option that may be changed when a run continues."""


class DataOptions(Options):
    """Options for texts, tokens and examples."""

    corpus: Names = Field(
        min_length=1,
        description="Text files, as names, globs or addresses such as `s3://bucket/*.txt`, with "
        "one sentence or paragraph in each line and a blank line after each document. Or JSON "
        "lines, Parquet, TFRecord or tar files with a document in each record. Or directories that "
        "`keras-bert tokenize` wrote.",
    )
    text_field: str = Field(
        default="text",
        description="Field with the text in JSON lines, Parquet, TFRecord and tar files.",
    )
    unreadable_files: Annotated[Literal["stop", "skip"], MAY_CHANGE] = Field(
        default="stop",
        description="Handling of files of the corpus that are missing, damaged, changed or not "
        "UTF-8, or that a store does not give: stop ends the run with an error. skip leaves out "
        "the file from the first error on, with a warning and a line in the run's log. A damaged "
        "file that `keras-bert tokenize` wrote is left out as a whole.",
    )
    weights: Numbers = Field(
        default=(),
        description="Ratio of tokens from each name in `data.corpus`, such as [0.7, 0.3]. When the "
        "text of a name ends, it is read again, so the run has no epochs. By default, all names "
        "are one corpus.",
    )
    temperature: OptionalNumber = Field(
        default=None,
        gt=0,
        description="Mixes the names in `data.corpus` by weights that are their sizes to the power "
        "of 1 / temperature. 1 means in proportion to the sizes; higher values take more from "
        "small sources.",
    )
    vocabulary: str | None = Field(
        default=None,
        description="Vocabulary of any tokenizer: `vocab.txt`, `vocab.json` with `merges.txt` "
        "beside it, a SentencePiece `*.model`, or a directory that has such files or a model. "
        "The default is the vocabulary of `model.init_checkpoint` or `objective.teacher`.",
    )
    lowercase: bool | None = Field(
        default=None,
        description="Whether WordPiece lowercases the text and strips accents. null means yes. "
        "Files of other tokenizers already say this.",
    )
    validation: Names = Field(
        default=(), description="Files of held-out text, in the same form as `data.corpus`."
    )
    validation_ratio: Number = Field(
        default=0.01,
        ge=0,
        le=0.5,
        description="Ratio of the corpus to hold out if `data.validation` names no files.",
    )
    validation_examples: Count = Field(
        default=1024, description="Largest number of held-out examples for an evaluation."
    )
    memory: Number = Field(
        default=2.0,
        gt=0,
        le=2**20,
        description="Approximate memory for text and tokens in each process, in GB. A corpus that "
        "does not fit is read in blocks. Only the examples of a block are shuffled together.",
    )
    sequence_length: int = Field(
        default=128, ge=8, le=2**31, description="Tokens per example, with special tokens."
    )
    across_documents: bool | None = Field(
        default=None,
        description="Whether a sequence may continue into the next document, as RoBERTa's \"full "
        "sentences\" do. Not for objectives with pairs of texts. null takes the family's value "
        "if the objective allows it.",
    )
    packed: bool | None = Field(
        default=None,
        description="Whether a sequence is filled with several documents. Each document has its "
        "own `[CLS]`, `[SEP]` and positions, and its tokens attend only to each other. Not for "
        "objectives with pairs of texts, and not with `data.across_documents`. null takes the "
        "family's value if these allow it.",
    )
    masking_rate: OptionalNumber = Field(
        default=None,
        ge=1e-3,
        le=0.9,
        description="Ratio of the tokens to predict. null takes the family's ratio.",
    )
    masking: str | None = Field(
        default=None,
        description="Unit that is masked as a whole: token, word, ngram (one to three words) or "
        "span (one to ten words). null takes the family's unit.",
    )


class ModelOptions(Options):
    """Options for the encoder."""

    family: str = Field(
        default="",
        description="Family of the encoder, a name in `keras_bert.families`. The default is the "
        "preset's family. With a teacher and without a preset, the default is the family that "
        "is pretrained by distillation, distilbert.",
    )
    preset: str | None = Field(
        default=None,
        description="Size of the encoder, a name that `EncoderConfig.preset` takes. The default "
        "is bert_mini. With a teacher, it is the teacher's size with half of the layers.",
    )
    init_checkpoint: str | None = Field(
        default=None,
        description="Model to start from, for continued pretraining or for a second phase on "
        "longer sequences. Any model that `keras_bert.load` opens. Then `model.preset` must be "
        "null.",
    )
    encoder: dict[str, Any] = Field(
        default={}, description="Options of `EncoderConfig` that differ from the preset."
    )
    vocabulary_size_multiple: Count = Field(
        default=1,
        description="The number of rows of the token embedding is rounded up to a multiple of "
        "this number, which is faster on accelerators. The added rows belong to no token.",
    )


class ObjectiveOptions(Options):
    """Options for the training objective."""

    name: str = Field(
        default="",
        description="Objective: mlm, mlm+nsp, mlm+sop, rtd, rtd+gdes, distillation or "
        "distillation-masked. The default is the family's own objective or, with a teacher, "
        "distillation.",
    )
    teacher: str | None = Field(
        default=None, description="Directory of the model to learn from. Only for distillation."
    )
    generator_size: OptionalNumber = Field(
        default=None,
        gt=0,
        le=1,
        description="Ratio of the generator's width to the encoder's width, for objectives with "
        "replaced tokens. null means the published value.",
    )
    generator_depth: OptionalNumber = Field(
        default=None,
        gt=0,
        le=1,
        description="Ratio of the generator's number of layers to the encoder's number. null "
        "means the published value.",
    )


class OptimizerOptions(Options):
    """Options for the optimizer."""

    name: str = Field(
        default="adamw",
        description="Optimizer: adamw, stable_adamw (lowers the learning rate of a weight whose "
        "gradient is suddenly large) or, for large batches, lamb.",
    )
    learning_rate: Number = Field(
        default=1e-4, ge=0, le=10, description="Learning rate at the end of the warm-up."
    )
    beta_1: Number = Field(default=0.9, ge=0, lt=1, description="Decay rate of the first moment.")
    beta_2: Number = Field(
        default=0.999, ge=0, lt=1, description="Decay rate of the second moment."
    )
    epsilon: Number = Field(
        default=1e-6, gt=0, le=1, description="Number added to the root of the second moment, ε."
    )
    weight_decay: Number = Field(
        default=0.01,
        ge=0,
        le=10,
        description="Decoupled weight decay, not applied to biases and layer normalizations.",
    )
    global_clipnorm: OptionalNumber = Field(
        default=1.0,
        gt=0,
        description="Largest norm of the gradient of all weights together. A larger gradient is "
        "scaled down to it. null turns this off.",
    )


class ScheduleOptions(Options):
    """Options for the run's length, batch size and learning-rate schedule."""

    steps: Annotated[OptionalCount, MAY_CHANGE] = Field(
        default=None,
        description="Length of the run in steps, which are updates of the weights. Or give epochs.",
    )
    epochs: Annotated[OptionalNumber, MAY_CHANGE] = Field(
        default=None, gt=0, le=2**31, description="Length of the run in passes through the corpus."
    )
    batch_size: Count = Field(default=32, description="Examples per step, over all replicas.")
    first_batch_size: OptionalCount = Field(
        default=None,
        description="Batch size of the first step, if the batch size grows. It is doubled at equal "
        "intervals until it is `schedule.batch_size`.",
    )
    batch_ramp_steps: OptionalCount = Field(
        default=None, description="Number of steps in which the batch size grows."
    )
    warmup_steps: int = Field(
        default=0, ge=0, le=2**31, description="Steps of linear warm-up. Or give warmup_ratio."
    )
    warmup_ratio: OptionalNumber = Field(
        default=None, ge=0, le=1, description="Ratio of the run's steps that are warm-up."
    )
    lr_schedule: str = Field(
        default="linear",
        description="Shape of the learning rate after the warm-up: linear, cosine, one_minus_sqrt "
        "or constant.",
    )
    decay_ratio: OptionalNumber = Field(
        default=None,
        ge=0,
        le=1,
        description="Ratio of the run's steps in which the learning rate falls, at the end of the "
        "run. Before these steps, the learning rate is constant (warmup-stable-decay). null means "
        "that the learning rate falls in all steps after the warm-up.",
    )
    final_learning_rate: Number = Field(
        default=0.0,
        ge=0,
        le=10,
        description="Learning rate at the end of the run. Must be 0 if `schedule.lr_schedule` is "
        "constant.",
    )


class DevicesOptions(Options):
    """Options for the devices and the precision of a run."""

    strategy: Annotated[str, MAY_CHANGE] = Field(
        default="default",
        description="Strategy: default (one device), mirrored (all devices of this machine), "
        "multi_worker (several processes) or tpu. For multi_worker, start the same command for "
        "each process. The first process writes to `output`, and all must be able to read it.",
    )
    cluster: Annotated[str, MAY_CHANGE] = Field(
        default="",
        description="Source of the workers' addresses. For multi_worker: tf_config (the default, "
        "the environment variable TF_CONFIG), slurm or kubernetes. For tpu: the TPU's name.",
    )
    data_service: Annotated[Names, MAY_CHANGE] = Field(
        default=(),
        description="`HOST:PORT` of each `keras-bert data-service` that makes batches. Useful if "
        "one machine makes batches too slowly for its accelerators. The corpus must be tokenized.",
    )
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16", "auto"] = Field(
        default="float32",
        description="Precision of the computations. mixed_float16 uses a dynamic loss scale. auto "
        "means mixed_bfloat16 on devices that compute fast in it, else float32; not for "
        "multi_worker. A run that continues keeps its precision.",
    )
    gradient_accumulation_steps: Annotated[Count, MAY_CHANGE] = Field(
        default=1,
        description="Number of micro-batches into which a replica divides its batch, to save "
        "memory. Held-out batches have the size of a micro-batch.",
    )
    jit_compile: Annotated[bool | None, MAY_CHANGE] = Field(
        default=None,
        description="Whether XLA compiles the forward and backward pass. null means only on GPUs. "
        "On CPUs, XLA is slower. TPUs always use it.",
    )
    peak_teraflops: Annotated[OptionalNumber, MAY_CHANGE] = Field(
        default=None,
        gt=0,
        description="Peak speed of one device in TFLOP/s, to compute the utilization (mfu). null "
        "means the known peak of the GPU or TPU.",
    )


class LoggingOptions(Options):
    """Options for how often a run logs, evaluates and saves."""

    steps_per_loop: Annotated[Count, MAY_CHANGE] = Field(
        default=10, description="Number of steps between two lines of the log."
    )
    evaluate_every: Annotated[OptionalCount, MAY_CHANGE] = Field(
        default=None,
        description="Number of steps between two evaluations. null evaluates only before and after "
        "the run.",
    )
    checkpoint_every: Annotated[Count, MAY_CHANGE] = Field(
        default=1000, description="Number of steps between two checkpoints."
    )
    keep_checkpoints: Annotated[Count, MAY_CHANGE] = Field(
        default=2,
        description="Number of last checkpoints to keep. The checkpoint with the lowest held-out "
        "loss is always kept. If the loss rises, the last one before the rise is kept, too.",
    )


class PretrainingConfig(Options):
    """Configuration of a pretraining run.

    `keras_bert.pretraining.resolve.resolve` fills in the defaults that depend on the family, the
    objective or a checkpoint. The constructor checks only types and ranges, and opens no file.

    Args:
        output: directory of the run: checkpoints, logs and, at the end, `model`.
        seed: seed of weights, pairs, masks and dropout.
        data: options for texts, tokens and examples.
        model: options for the encoder.
        objective: options for the training objective.
        optimizer: options for the optimizer.
        schedule: options for length, batch size and learning-rate schedule.
        devices: options for devices and precision.
        logging: options for how often the run logs, evaluates and saves.

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
