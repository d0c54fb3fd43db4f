"""What a pretraining run is made of, as one YAML file."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.config import EncoderConfig, check_options
from keras_bert.errors import InputError
from keras_bert.families import FAMILIES
from keras_bert.optimizers.published import BETA_1, BETA_2, EPSILON
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.option_file import read_options
from keras_bert.pretraining.option_ranges import check_ranges
from keras_bert.pretraining.option_types import check_type, read_value, to_strings
from keras_bert.pretraining.resolve import encoder_config, family_of, objective_of

MAY_CHANGE = (
    "output",
    "steps",
    "epochs",
    "strategy",
    "cluster",
    "data_service",
    "accumulation",
    "checkpoint_every",
    "keep_checkpoints",
    "evaluate_every",
    "steps_per_loop",
    "jit",
    "peak_teraflops",
)
"""Options that may differ when a run is continued: how long, where, how often it looks."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig:
    """A pretraining run.

    Args:
        corpus: globs of text files, one sentence or paragraph a line, documents ended by a blank
            line or the end of the file; or directories that `keras-bert tokenize` wrote.
        vocabulary: of any tokenizer: `vocab.txt`, `vocab.json` with `merges.txt` beside it, a
            `*.model` of SentencePiece, or a directory of one of them or of a model. It may be left
            out where there is a model to start from or to learn from, for that model's.
        output: directory of the run: checkpoints, logs and, at the end, `model`.
        family: of the encoder, a name in `keras_bert.families`; "" means the preset's or, where
            there is a teacher and no preset, the one whose own objective is distillation.
        preset: size of the encoder, a name that `EncoderConfig.preset` takes; None means that of
            "bert_mini" or, where there is a teacher, the teacher's with half of its layers.
        initial: a model to start from, any that `keras_bert.load` opens: continued pretraining, or
            a second phase on longer sequences. Sizes are its own, in place of a preset's.
        encoder: options of `EncoderConfig` that differ from the preset.
        vocabulary_size_multiple: the token embedding gets rows for a multiple of this number, which
            matrix units like; no token has those beyond the vocabulary.
        lowercase: whether WordPiece lowercases the text and strips accents; None means yes. Other
            tokenizers say it themselves.
        objective: a name in `OBJECTIVES`; "" means the family's own or, where there is a teacher,
            distillation.
        generator_size: width of a generator, as a share of the encoder's; None means what was
            published for the objective. Only for objectives with replaced tokens.
        generator_depth: its number of layers, the same.
        teacher: directory of the model to learn from, for distillation.
        validation: held-out text, as the corpus.
        validation_share: share of the corpus to hold out where no files are named.
        validation_examples: how many held-out examples to evaluate on, at most.
        sequence_length: tokens per example, special tokens included.
        batch_size: examples per step, over all replicas.
        first_batch_size: the same for the first step, where the batch is to grow: from here it is
            doubled, after equal numbers of steps, until it is `batch_size`. A step stays one update
            of the weights, also for `steps`, the warm-up and the decay.
        batch_ramp_steps: steps in which it grows.
        across_documents: whether a sequence goes on into the next document, as RoBERTa's "full
            sentences"; not for objectives with pairs of texts. None means as the family does where
            the objective allows it.
        packed: whether a sequence is filled with several documents, each with its own `[CLS]`,
            `[SEP]` and positions, which do not attend to one another; not for objectives with
            pairs of texts, and in place of `across_documents`.
        accumulation: number of parts in which a replica works through its share of a batch, and
            held-out text is seen in batches as small.
        steps: length of the run; or
        epochs: the same in passes through the corpus.
        masking_rate: share of the tokens to guess.
        masking: what is masked at once: "token", "word", "ngram" (one to three words) or "span"
            (one to ten); None means as the family does.
        learning_rate: at the end of the warm-up.
        warmup_steps: steps of linear rise; or
        warmup_share: the same as a share of the run.
        decay: how the learning rate falls after that: "linear", "cosine" or "constant" (not).
        final_learning_rate: at the end of the run; 0 where the decay is "constant".
        optimizer: "adamw" or "lamb", for large batches.
        beta_1: of the first moment.
        beta_2: of the second.
        epsilon: beside the root of the second.
        weight_decay: decoupled, not on biases and layer normalizations.
        clip_norm: largest norm of the gradient, or None.
        seed: of weights, pairs, masks and dropout.
        strategy: "default" (one device), "mirrored" (all of this machine), "multi_worker" (several
            processes, the same command for each; the first one writes, and all read `output`) or
            "tpu".
        cluster: where the others are: for "multi_worker" "tf_config" (the default, from that
            environment variable), "slurm" or "kubernetes"; for "tpu" its name.
        data_service: `HOST:PORT` of each `keras-bert data-service` that makes batches, where one
            machine is too slow for its accelerators; the corpus must be tokenized.
        precision: "float32", "mixed_bfloat16" or, with a dynamic loss scale, "mixed_float16".
        checkpoint_every: steps from one checkpoint to the next.
        keep_checkpoints: how many are kept, beside the one with the lowest held-out loss and,
            where the loss rises, the last one before that.
        evaluate_every: steps from one evaluation to the next; None for only before and after.
        steps_per_loop: steps between two looks at the losses; a line of the log each.
        jit: whether XLA compiles the forward and backward pass; None means on GPUs only, since on
            CPUs it is slower, and TPUs have it anyway.
        peak_teraflops: what the device of a replica could do at most, in TFLOP/s, of which the
            share that is used is then shown; None means what is known of a GPU or TPU by its name,
            and nothing for others.

    Raises:
        InputError: if a value is out of its range, or two do not go together.
    """

    corpus: tuple[str, ...]
    vocabulary: str
    output: str
    family: str = ""
    preset: str | None = None
    initial: str | None = None
    encoder: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    vocabulary_size_multiple: int = 1
    lowercase: bool | None = None
    objective: str = ""
    generator_size: float | None = None
    generator_depth: float | None = None
    teacher: str | None = None
    validation: tuple[str, ...] = ()
    validation_share: float = 0.01
    validation_examples: int = 1024
    sequence_length: int = 128
    across_documents: bool | None = None
    packed: bool = False
    batch_size: int = 32
    first_batch_size: int | None = None
    batch_ramp_steps: int | None = None
    accumulation: int = 1
    steps: int | None = None
    epochs: float | None = None
    masking_rate: float = 0.15
    masking: str | None = None
    learning_rate: float = 1e-4
    warmup_steps: int = 0
    warmup_share: float | None = None
    decay: str = "linear"
    final_learning_rate: float = 0.0
    optimizer: str = "adamw"
    beta_1: float = BETA_1
    beta_2: float = BETA_2
    epsilon: float = EPSILON
    weight_decay: float = 0.01
    clip_norm: float | None = 1.0
    seed: int = 0
    strategy: str = "default"
    cluster: str = ""
    data_service: tuple[str, ...] = ()
    precision: str = "float32"
    checkpoint_every: int = 1000
    keep_checkpoints: int = 2
    evaluate_every: int | None = None
    steps_per_loop: int = 10
    jit: bool | None = None
    peak_teraflops: float | None = None

    def __post_init__(self) -> None:
        for name in ("corpus", "validation", "data_service"):
            object.__setattr__(self, name, to_strings(name, getattr(self, name)))
        for field in dataclasses.fields(self):
            check_type(field, getattr(self, field.name))
        if not self.corpus:
            raise InputError("corpus is empty, but must name text files.")
        self._choose_objective()
        check_ranges(self)
        if (self.steps is None) == (self.epochs is None):
            raise InputError("Give either steps or epochs, the length of the run.")
        if self.warmup_steps and self.warmup_share is not None:
            raise InputError("Give either warmup_steps or warmup_share, and unset the other.")
        if self.final_learning_rate > self.learning_rate:
            raise InputError(
                f"final_learning_rate {self.final_learning_rate} is more than learning_rate "
                f"{self.learning_rate}; it must not be."
            )
        if self.final_learning_rate and self.decay == "constant":
            raise InputError(
                f"final_learning_rate {self.final_learning_rate} is never reached with decay "
                "constant; set it to 0, or choose decay linear or cosine."
            )
        self._check_batch()

    def encoder_config(self, vocabulary_size: int) -> EncoderConfig:
        """The encoder's configuration, for a vocabulary of so many tokens.

        Raises:
            InputError: if it is not possible, or the sequence is longer than the positions.
        """
        return encoder_config(self, vocabulary_size)

    def _check_batch(self) -> None:
        if (self.first_batch_size is None) != (self.batch_ramp_steps is None):
            raise InputError(
                "first_batch_size and batch_ramp_steps belong together: give both where the batch "
                "is to grow, or neither."
            )
        first = self.first_batch_size or self.batch_size
        factor, rest = divmod(self.batch_size, first)
        if rest or factor & (factor - 1):  # no power of two
            raise InputError(
                f"first_batch_size {first} does not become batch_size {self.batch_size} by "
                "doubling; choose that divided by 2, 4, 8 or another power of two."
            )
        if first % self.accumulation:  # the later ones are its multiples
            name = "first_batch_size" if self.first_batch_size else "batch_size"
            raise InputError(
                f"{name} {first} cannot be divided into {self.accumulation} parts (accumulation); "
                "choose a multiple."
            )

    def _choose_objective(self) -> None:
        """Fills in what is the family's where it is not given, and checks what belongs together."""
        if "family" in self.encoder:
            raise InputError(
                "encoder.family alone does not make an encoder of that family; give the option "
                "family instead."
            )
        if self.initial == "":
            raise InputError(
                "initial is empty, but must name the model to start from; in a second phase that "
                "of the first one, RUN/model."
            )
        if self.initial and (self.preset or self.teacher):
            other = "preset" if self.preset else "teacher"
            raise InputError(
                f"{self.initial} has its sizes and weights already; set {other} to null, or leave "
                "initial out."
            )
        family = self.family or family_of(self)
        object.__setattr__(self, "family", family)
        if family in FAMILIES and not self.objective:
            object.__setattr__(self, "objective", objective_of(self, family))
        if family not in FAMILIES or self.objective not in OBJECTIVES:
            return  # which is told below
        own = FAMILIES[family].PRETRAINING
        if OBJECTIVES[self.objective].pairs or self.packed:
            own = own | {"across_documents": False}
        for name, value in own.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        OBJECTIVES[self.objective].check_run(self)

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON and YAML can hold them."""
        values = dataclasses.asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PretrainingConfig":
        """The inverse of `to_dict`.

        Raises:
            InputError: if an option is unknown, missing or out of range.
        """
        fields = {field.name: field for field in dataclasses.fields(cls)}
        given = values.get("initial") or values.get("teacher")
        if given:
            values = {"vocabulary": given} | dict(values)
        check_options("Pretraining", values, fields.values())
        options = {name: read_value(fields[name], value) for name, value in values.items()}
        if isinstance(encoder := options.get("encoder"), Mapping):
            of_encoder = {field.name: field for field in dataclasses.fields(EncoderConfig)}
            options["encoder"] = {
                name: read_value(of_encoder[name], value) if name in of_encoder else value
                for name, value in encoder.items()
            }
        return cls(**options)

    @classmethod
    def from_yaml(
        cls, path: str | os.PathLike, overrides: Sequence[str] = ()
    ) -> "PretrainingConfig":
        """Reads a YAML file.

        Args:
            path: the file, a mapping of option to value, or the name of a recipe of this package.
            overrides: "option=value", the value as in YAML; "encoder.option=value" for the
                encoder.

        Raises:
            InputError: if the file or an option cannot be used.
        """
        return cls.from_dict(read_options(path, overrides))
