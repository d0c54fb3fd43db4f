"""Model with a generator and a detector that are trained together (ELECTRA, DeBERTa-v3)."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert.checkpoints.variables import named_variables
from keras_bert.config import EncoderConfig
from keras_bert.layers.encoder import EmbeddingSum, Encoder
from keras_bert.tasks.masked_lm import MaskedLanguageModel
from keras_bert.tasks.replaced_token import ReplacedTokenDetector

SHARED_TABLES = ("token_embedding", "position_embedding")


class ReplacedTokenModel(keras.Model):
    """A generator, which replaces masked tokens, and a detector, which finds the replaced tokens.

    By default, both share their embeddings, as in ELECTRA (Clark et al. 2020,
    https://arxiv.org/abs/2003.10555, section 2). With `disentangled`, the detector's token and
    position tables are the generator's tables plus a difference. The difference is zero at first.
    Of these tables, the detector's loss trains only the difference, because its gradient does not
    reach the generator's tables. This is the gradient-disentangled embedding sharing of DeBERTa-v3
    (He et al. 2021, https://arxiv.org/abs/2111.09543, section 3.2).

    Args:
        config: configuration of the detector's encoder.
        generator: configuration of the generator's encoder, with the same `embedding_size`.
        disentangled: whether the embeddings are shared as in DeBERTa-v3.
        preprocessor: preprocessor of the detector, which is the final model.
        dtype: dtype of all weights and computations, as in every Keras model.
    """

    def __init__(
        self,
        config: EncoderConfig,
        generator: EncoderConfig,
        *,
        disentangled: bool = False,
        preprocessor: Any = None,
        dtype: Any = None,
    ):
        # Do not cast inputs: bfloat16 noise is too coarse to sample from a vocabulary.
        super().__init__(dtype=dtype, autocast=False)
        self.config = config
        self.disentangled = disentangled
        # The token embedding may have more rows than there are tokens.
        self.num_tokens = len(preprocessor.vocabulary) if preprocessor else config.vocabulary_size
        if disentangled:
            maker = Encoder(generator, name="generator", dtype=dtype)
            embeddings = DisentangledEmbedding(
                config, maker.embeddings, name="embeddings", dtype=dtype
            )
            self.encoder = Encoder(config, embeddings, dtype=dtype)
        else:
            self.encoder = Encoder(config, dtype=dtype)
            maker = Encoder(generator, self.encoder.embeddings, name="generator", dtype=dtype)
        self.generator = MaskedLanguageModel(maker, enhanced=generator.positions_in_head)
        self.detector = ReplacedTokenDetector(
            self.encoder, context=config.positions_in_head, preprocessor=preprocessor
        )
        self.built = True

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> dict[str, Any]:
        """Returns the logits of the generator and the detector, float32.

        Args:
            inputs: the encoder's inputs with masked tokens, and these arrays:
                `masked_positions` `[B, P]` int32, 0 for an unused prediction.
                `original_ids` `[B, T]` int32, the tokens before masking.
                `noise` `[B, P]` float32 in [0, 1), random numbers for drawing the generator's
                tokens.

        Returns:
            `mlm_logits` `[B, P, V]`, `rtd_logits` `[B, T]` and `replaced` `[B, T]` int32, 1 where
            the detector's token differs from the original token.
        """
        mlm_logits = self.generator(inputs, training=training)
        original, positions = inputs["original_ids"], inputs["masked_positions"]
        drawn = sample(mlm_logits[..., : self.num_tokens], inputs["noise"])
        token_ids = put(original, positions, drawn)
        detected = {k: v for k, v in inputs.items() if k != "masked_positions"}
        rtd_logits = self.detector({**detected, "token_ids": token_ids}, training=training)
        replaced = ops.cast(ops.not_equal(token_ids, original), "int32")
        return {"mlm_logits": mlm_logits, "rtd_logits": rtd_logits, "replaced": replaced}

    def start_from(self, detector: ReplacedTokenDetector) -> None:
        """Copies the weights of a detector. The generator's embeddings change, too."""
        values = named_variables(detector)
        ours = named_variables(self.detector)
        if self.disentangled:  # the generator gets the tables, so the differences are zero
            generator = self.generator.encoder.embeddings
            for table in SHARED_TABLES:
                if ours.pop(f"encoder/embeddings/{table}", None) is not None:
                    value = ops.convert_to_numpy(values[f"encoder/embeddings/{table}"])
                    getattr(generator, table).assign(value)
        for name, variable in ours.items():
            variable.assign(ops.convert_to_numpy(values[name]))

    def final_model(self) -> ReplacedTokenDetector:
        """Returns the final model: the detector, with its own copy of the embeddings."""
        if not self.disentangled:
            return self.detector
        encoder = Encoder(self.config, dtype=self.dtype_policy)
        detector = ReplacedTokenDetector(
            encoder, context=self.detector.context, preprocessor=self.detector.preprocessor
        )
        values = named_variables(self.detector)
        for table in SHARED_TABLES:
            values[f"encoder/embeddings/{table}"] = getattr(self.encoder.embeddings, table)
        for name, variable in named_variables(detector).items():
            variable.assign(ops.convert_to_numpy(values[name]))
        return detector


class DisentangledEmbedding(EmbeddingSum):
    """Embeddings whose token and position tables are another encoder's tables plus a difference.

    The other encoder's tables get no gradient from this layer. The layer's weights named
    `token_embedding` and `position_embedding` hold only the differences. The attributes
    `token_embedding` and `position_embedding` are the other tables plus these differences.

    Args:
        config: configuration of the encoder.
        base: embeddings of another encoder.
        **kwargs: `name` and `dtype`, as in every Keras layer.
    """

    def __init__(self, config: EncoderConfig, base: EmbeddingSum, **kwargs: Any):
        super().__init__(config, **kwargs)
        self._base = lambda table: getattr(
            base, table
        )  # a function, so that Keras does not track the base as a layer of this layer

    @property
    def token_embedding(self) -> Any:
        """Table of token embeddings, `[V, E]`."""
        return self._sum("token_embedding")

    @token_embedding.setter
    def token_embedding(self, difference: Any) -> None:
        self.token_difference = difference

    @property
    def position_embedding(self) -> Any:
        """Table of position embeddings, `[positions, E]`, or None."""
        return None if self.position_difference is None else self._sum("position_embedding")

    @position_embedding.setter
    def position_embedding(self, difference: Any) -> None:
        self.position_difference = difference

    def _sum(self, table: str) -> Any:
        difference = getattr(self, table.replace("embedding", "difference"))
        base = ops.convert_to_tensor(self._base(table))
        return ops.stop_gradient(base) + ops.convert_to_tensor(difference)

    def matrix(self, rows: int, columns: int, name: str, **options: Any) -> Any:
        """Adds a table, with zeros if it is a difference."""
        if name in SHARED_TABLES:
            options["initializer"] = "zeros"
        return super().matrix(rows, columns, name, **options)


def generator_config(config: EncoderConfig, size: float, depth: float) -> EncoderConfig:
    """Returns the configuration of a generator's encoder.

    Args:
        config: configuration of the detector.
        size: ratio of the generator's width, heads and feed-forward layer to the detector's.
        depth: ratio of the generator's number of layers to the detector's.
    """
    num_heads = max(1, round(config.num_heads * size))
    hidden_size = num_heads * config.head_size
    return config.replace(
        num_heads=num_heads,
        hidden_size=hidden_size,
        intermediate_size=config.intermediate_size * hidden_size // config.hidden_size,
        embedding_size=config.embedding_size,
        num_layers=max(1, round(config.num_layers * depth)),
        pooler=False,
    )


def sample(logits: Any, noise: Any) -> Any:
    """Draws a class for each noise value, by the inverse of the distribution function.

    Args:
        logits: `[..., C]` float32.
        noise: `[...]` float32, uniform in [0, 1).

    Returns:
        `[...]` int32.
    """
    reached = ops.cumsum(ops.softmax(ops.stop_gradient(logits), axis=-1), axis=-1)
    wanted = ops.expand_dims(noise, -1) * reached[..., -1:]
    passed = ops.sum(ops.cast(reached <= wanted, "int32"), axis=-1)
    return ops.minimum(passed, logits.shape[-1] - 1)


def put(token_ids: Any, positions: Any, values: Any) -> Any:
    """Writes `values` `[B, P]` to `positions` `[B, P]` of token ids `[B, T]`; skips position 0."""
    here = ops.equal(ops.expand_dims(positions, -1), ops.arange(1, token_ids.shape[1]))
    here = ops.cast(here, "int32")  # [B, P, T - 1]; comparisons, because a scatter is slow on TPUs
    new = ops.sum(here * ops.expand_dims(values, -1), axis=1)
    is_new = ops.sum(here, axis=1) > 0
    new = ops.where(is_new, new, token_ids[:, 1:])
    return ops.concatenate([token_ids[:, :1], new], axis=1)
