"""The bidirectional encoder: embeddings, layers and pooler."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError
from keras_bert.layers.configured import Configured
from keras_bert.layers.convolution import TokenConvolution
from keras_bert.layers.documents import restarted_positions, same_document
from keras_bert.layers.embeddings import EmbeddingSum, dense_gradient
from keras_bert.layers.encoder_layer import EncoderLayer
from keras_bert.layers.pooling import FirstTokenPooler
from keras_bert.layers.relative_positions import RelativePositions

INPUTS = ("token_ids", "segment_ids", "padding_mask")


@keras.saving.register_keras_serializable(package="keras_bert")
class Encoder(Configured, keras.Model):
    """The encoder of BERT (Devlin et al. 2018, https://arxiv.org/abs/1810.04805).

    All weights are made in the constructor. The attribute `preprocessor` (texts to inputs) is None
    unless a checkpoint sets it.

    Where `config.embedding_size` is not `config.hidden_size`, the embedding is projected
    (ALBERT, Lan et al. 2019, https://arxiv.org/abs/1909.11942, section 3.1); layers may share
    their weights (the same). With `config.relative_positions`, attention is disentangled
    (DeBERTa, He et al. 2020, https://arxiv.org/abs/2006.03654).

    Args:
        config: the encoder's configuration.
        embeddings: those of another encoder, to share them; None makes new ones.
        **kwargs: `name` and `dtype`, as in every Keras model.

    Raises:
        InputError: if the shared embeddings are of another width.

    Example:
        >>> encoder = Encoder(EncoderConfig.preset("bert_tiny"))
        >>> outputs = encoder({"token_ids": np.array([[101, 7592, 102, 0]], "int32"),
        ...                    "padding_mask": np.array([[1, 1, 1, 0]], "int32")})
        >>> outputs["sequence_output"].shape, outputs["pooled_output"].shape
        ((1, 4, 128), (1, 128))
    """

    def __init__(
        self,
        config: EncoderConfig,
        embeddings: EmbeddingSum | None = None,
        name: str = "encoder",
        **kwargs: Any,
    ):
        super().__init__(config, name=name, **kwargs)
        self.preprocessor: Any = None
        if embeddings is None:
            embeddings = EmbeddingSum(config, name="embeddings", dtype=self.dtype_policy)
        elif embeddings.config.embedding_size != config.embedding_size:
            raise InputError(
                f"The shared embeddings are {embeddings.config.embedding_size} wide, but "
                f"embedding_size is {config.embedding_size}."
            )
        self.embeddings = embeddings
        self.projection = None
        if embeddings.width != config.hidden_size:
            self.projection = self.dense(config.hidden_size, "projection")
        self.relative_positions = self.convolution = None
        if config.relative_positions:
            self.relative_positions = RelativePositions(
                config, name="relative_positions", dtype=self.dtype_policy
            )
        if config.convolution_size:
            self.convolution = TokenConvolution(config, name="convolution", dtype=self.dtype_policy)
        self.encoder_layers = [
            EncoderLayer(config, name=f"layer_{index}", dtype=self.dtype_policy)
            for index in range(config.num_distinct_layers)
        ]
        self.pooler = None
        if config.pooler:
            self.pooler = FirstTokenPooler(config, name="pooler", dtype=self.dtype_policy)
        self.build()

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights; called by the constructor."""
        if not self.embeddings.built:
            self.embeddings.build()
        if self.projection is not None:
            self.projection.build((None, None, self.embeddings.width))
        parts = (self.relative_positions, *self.encoder_layers, self.convolution, self.pooler)
        for part in parts:
            if part is not None:
                part.build()

    def get_build_config(self) -> None:
        """None: the constructor builds the model."""

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool | None = None,
        return_hidden_states: bool = False,
        return_attentions: bool = False,
        decoder_positions: Any = None,
    ) -> dict[str, Any]:
        """Encodes a batch.

        Args:
            inputs: `token_ids` `[B, T]` int32; optionally `segment_ids` `[B, T]` int32 (default
                zeros), `padding_mask` `[B, T]` int32, 1 at tokens and 0 at padding (default
                ones), and `position_ids` `[B, T]` int32, rows of the position table. Where rows
                hold several documents, `document_ids` `[B, T]` int32, their numbers from 1, and 0
                at padding: none attends to another, and positions begin anew in each. Other
                entries are ignored.
            training: whether dropout is active.
            return_hidden_states: whether to return every layer's output.
            return_attentions: whether to return every layer's attention probabilities.
            decoder_positions: `[P, H]`, P being T or more, absolute positions for the enhanced
                mask decoder of DeBERTa (section 3.2): the last layer, applied twice, to its input
                plus these.

        Returns:
            `sequence_output` `[B, T, H]`; `pooled_output` `[B, H]` if the configuration has a
            pooler, of a row's first document; if asked for, `hidden_states`, a list of the
            embedding and each layer's output `[B, T, H]`, and `attentions`, a list of
            `[B, N, T, T]`; `decoded_output` `[B, T, H]` if there are `decoder_positions`.

        Raises:
            InputError: if `token_ids` are missing or longer than the positions.
        """
        if "token_ids" not in inputs:
            raise InputError(f"The inputs hold {sorted(inputs)}, but need 'token_ids' [B, T].")
        token_ids = inputs["token_ids"]
        padding_mask = inputs.get("padding_mask")
        if padding_mask is None:
            padding_mask = ops.ones_like(token_ids)
        documents, position_ids = inputs.get("document_ids"), inputs.get("position_ids")
        if documents is None:
            bias = self._attention_bias(padding_mask)
        else:
            bias = self._attention_bias(same_document(documents))
            restarted = restarted_positions(documents)
            if position_ids is None:
                position_ids = restarted + self.config.position_offset
        x = self.embeddings(
            token_ids,
            inputs.get("segment_ids"),
            inputs.get("padding_mask"),
            position_ids,
            training=training,
        )
        if self.projection is not None:
            x = self.projection(x)
        batch, length, hidden_size = ops.shape(x)
        matrix, relative = (batch * length, hidden_size), None  # a matrix is what layers take
        if self.relative_positions is not None:
            relative = self.relative_positions(token_ids)
        hidden_states, attentions = [x], list[Any]()
        for index in self.config.layer_order:
            before = ops.reshape(x, matrix)
            x, probabilities = self.encoder_layers[index](
                before, bias, relative, need_probabilities=return_attentions, training=training
            )
            x = ops.reshape(x, (batch, length, hidden_size))
            if self.convolution is not None and not attentions:
                x = self.convolution(
                    hidden_states[0], x, padding_mask, documents, training=training
                )
            hidden_states.append(x)
            attentions.append(probabilities)
        outputs = {"sequence_output": x}
        if self.pooler is not None:
            outputs["pooled_output"] = self.pooler(x)
        if decoder_positions is not None:
            if isinstance(length, int) and length > decoder_positions.shape[0]:
                raise InputError(
                    f"The sequence has {length} tokens, but the mask decoder has "
                    f"{decoder_positions.shape[0]} positions; shorten the sequence_length."
                )
            if documents is None:
                absolute = decoder_positions[:length]
            else:
                absolute = ops.take(dense_gradient(decoder_positions), restarted, axis=0)
            queries = ops.reshape(hidden_states[-2] + absolute, matrix)
            for _ in range(2):
                queries, _ = self.encoder_layers[index](
                    before, bias, relative, queries, need_probabilities=False, training=training
                )
            outputs["decoded_output"] = ops.reshape(queries, (batch, length, hidden_size))
        if return_hidden_states:
            outputs["hidden_states"] = hidden_states
        if return_attentions:
            outputs["attentions"] = attentions
        return outputs

    def _attention_bias(self, mask: Any) -> Any:
        """0 where `mask` is true, `mask_value` elsewhere, float32.

        Args:
            mask: `[B, T]`, for all positions alike, or `[B, T, T]`, rows being those that attend.

        Returns:
            `[B, 1, 1, T]` or `[B, 1, T, T]`.
        """
        hidden = 1.0 - ops.cast(mask, "float32")
        return ops.expand_dims(hidden * self.config.mask_value, (1, 2) if mask.ndim == 2 else 1)
