"""Bidirectional encoder: embeddings, layers and pooler."""

import functools
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert.allocator import keep_freed_memory
from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError
from keras_bert.layers import sliding_window
from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.configured import (
    ACTIVATION_FUNCTIONS,
    Configured,
    ConfiguredLayer,
    HasPreprocessor,
    KerasMethods,
    lookup,
    used_inputs,
)
from keras_bert.layers.convolution import TokenConvolution
from keras_bert.layers.disentangled_attention import (
    DisentangledSelfAttention,
    RelativePositions,
)
from keras_bert.layers.documents import restarted_positions, same_document
from keras_bert.layers.fused import add_and_normalize, project
from keras_bert.layers.lora import LowRankAdaptation
from keras_bert.layers.positions import DistanceBias, rotation
from keras_bert.layers.quantization import KEY, add_policies, quantize_layers
from keras_bert.layers.rematerialization import in_scope, rematerialized


@keras.saving.register_keras_serializable(package="keras_bert")
class EmbeddingSum(ConfiguredLayer):
    """LayerNorm(token + segment + learned position), then dropout (BERT, section 3).

    The configuration decides whether there are positions, segments, an embedding of the pretraining
    task and a normalization.

    A masked language model with `tied=True` also uses `token_embedding` `[V, E]` as output matrix.
    """

    def build(self, input_shape: Any = None) -> None:
        """Makes the tables; the shape of the input does not matter."""
        config = self.config
        size = config.embedding_size
        self.token_embedding = self.matrix(config.vocabulary_size, size, "token_embedding")
        self.position_embedding = None
        if config.position_input:
            rows = config.max_positions + config.position_offset
            self.position_embedding = self.matrix(rows, size, "position_embedding")
        self.segment_embedding = None
        if config.num_segments:
            self.segment_embedding = self.matrix(config.num_segments, size, "segment_embedding")
        self.task_embedding = None
        if config.num_task_types:
            self.task_embedding = self.matrix(config.num_task_types, size, "task_embedding")
        self.projection = None
        if self.width != size:
            self.projection = self.dense(size, self.width, "projection", use_bias=False)
        self.normalization = None
        if config.embedding_norm:
            self.normalization = self.layer_norm(self.width, "layer_norm")
        self.dropout_layer = self.dropout(config.hidden_dropout, "dropout")

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """`[B, T, E]`, or `[B, T, H]` if `config.projection_first`."""
        return (None, None, self.width)

    @property
    def width(self) -> int:
        """Width of the output."""
        config = self.config
        return config.hidden_size if config.projection_first else config.embedding_size

    def call(
        self,
        token_ids: Any,
        segment_ids: Any = None,
        padding_mask: Any = None,
        position_ids: Any = None,
        training: bool | None = None,
    ) -> Any:
        """Returns the embeddings of a batch of token ids.

        Args:
            token_ids: `[B, T]` int32.
            segment_ids: `[B, T]` int32, or None for all zeros.
            padding_mask: `[B, T]` int32, or None for all ones. It has no effect if
                `config.position_offset` is 0.
            position_ids: `[B, T]` int32, indices of rows in the position table, or None for
                consecutive rows.

        Returns:
            `[B, T, E]`, or `[B, T, H]` if `config.projection_first`, in the compute dtype.

        Raises:
            InputError: if T is known and larger than `config.max_positions`.
        """
        x = lookup(self.token_embedding, token_ids, self.compute_dtype)
        if self.segment_embedding is not None:
            x = x + self._segments(token_ids, segment_ids)
        if self.task_embedding is not None:
            x = x + ops.cast(self.task_embedding, self.compute_dtype)[:1]
        if self.position_embedding is not None:
            x = x + self._positions(token_ids, padding_mask, position_ids)
        if self.projection is not None:
            x = self.projection(x)
        if self.normalization is not None:
            x = self.normalization(x)
        return self.dropout_layer(x, training=training)

    def _segments(self, token_ids: Any, segment_ids: Any) -> Any:
        """Returns segment embeddings `[B, T, E]`, or `[1, E]` if there is one segment."""
        table = ops.cast(self.segment_embedding, self.compute_dtype)
        if self.config.num_segments == 1:
            return table
        if segment_ids is None:
            segment_ids = ops.zeros_like(token_ids)
        # The table is small: a product with a one-hot matrix is faster than a lookup, and its
        # gradient is dense.
        one_hot = ops.one_hot(segment_ids, self.config.num_segments, dtype=table.dtype)
        return ops.matmul(one_hot, table)

    def _positions(self, token_ids: Any, padding_mask: Any, position_ids: Any) -> Any:
        """Returns position embeddings `[B, T, E]`, or `[T, E]` if they are equal for all texts."""
        most, offset = self.config.max_positions, self.config.position_offset
        static = token_ids.shape[1]
        if static is not None and static > most:
            raise InputError(
                f"The sequence has {static} tokens, but this encoder has {most} positions; "
                "shorten the sequence_length."
            )
        table, dtype = ops.convert_to_tensor(self.position_embedding), self.compute_dtype
        if position_ids is None:
            if padding_mask is None or not offset:
                return ops.cast(table[offset : offset + ops.shape(token_ids)[1]], dtype)
            mask = ops.cast(padding_mask, "int32")
            position_ids = ops.cumsum(mask, axis=1) * mask + (offset - 1)
        return lookup(table, position_ids, dtype)


@keras.saving.register_keras_serializable(package="keras_bert")
class EncoderLayer(ConfiguredLayer):
    """Attention and feed-forward blocks, each x → norm(x + dropout(block(x))) (post-LN).

    If `config.pre_norm`, each block is x → x + dropout(block(norm(x))). Then the first layer has no
    normalization before attention if the embedding is normalized.

    Args:
        config: the encoder's configuration.
        index: index of the layer, from 0.
    """

    arguments = ("index",)

    def __init__(self, config: EncoderConfig, index: int = 0, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.index = index

    def build(self, input_shape: Any = None) -> None:
        """Makes the blocks; the shape of the input does not matter."""
        config, size, inner = self.config, self.config.hidden_size, self.config.intermediate_size
        attention = DisentangledSelfAttention if config.relative_positions else SelfAttention
        window = config.attention_window if config.has_window(self.index) else 0
        self.attention = attention(config, window, name="attention", dtype=self.dtype_policy)
        self.attention.build((None, None, size))
        self.attention_norm = None
        if self.index > 0 or not (config.pre_norm and config.embedding_norm):
            self.attention_norm = self.layer_norm(size, "attention_layer_norm")
        activation, bias = ACTIVATION_FUNCTIONS[config.activation], config.intermediate_bias
        self.intermediate = self.dense(
            size, inner, "intermediate", activation=activation, use_bias=bias
        )
        self.gate = None
        if config.gated:
            self.gate = self.dense(size, inner, "gate", use_bias=bias)
        self.output_projection = self.dense(inner, size, "output", use_bias=config.output_bias)
        self.output_norm = self.layer_norm(size, "output_layer_norm")
        self.attention_dropout = self.dropout(config.hidden_dropout, "attention_dropout")
        self.output_dropout = self.dropout(config.hidden_dropout, "output_dropout")

    def call(
        self,
        x: Any,
        bias: Any,
        positions: Any = None,
        queries: Any = None,
        need_probabilities: bool = True,
        training: bool | None = None,
    ) -> tuple[Any, Any]:
        """Applies both blocks; arguments and results as in `SelfAttention.call`.

        If `queries` are given, the layer transforms the queries instead of `x`, and they attend to
        `x`.
        """
        attended, probabilities = self.attention(
            self._before(x, self.attention_norm),
            bias,
            positions,
            queries,
            need_probabilities=need_probabilities,
            training=training,
        )
        x = x if queries is None else queries
        x = self._after(x, attended, self.attention_dropout, self.attention_norm, training)
        output = self._feed_forward(self._before(x, self.output_norm), training)
        x = self._after(x, output, self.output_dropout, self.output_norm, training)
        return x, probabilities

    def _feed_forward(self, x: Any, training: bool | None) -> Any:
        inner = project(self.intermediate, x, training)
        if self.gate is not None:
            inner = inner * project(self.gate, x, training)
        return project(self.output_projection, inner, training)

    def _before(self, x: Any, norm: Any) -> Any:
        """Returns the input of a block."""
        return norm(x) if self.config.pre_norm and norm is not None else x

    def _after(self, x: Any, update: Any, dropout: Any, norm: Any, training: bool | None) -> Any:
        """Returns the sum of a block's input and output, normalized unless `config.pre_norm`."""
        if self.config.pre_norm:
            return x + dropout(update, training=training)
        return add_and_normalize(x, update, dropout, norm, training)


@keras.saving.register_keras_serializable(package="keras_bert")
class FirstTokenPooler(ConfiguredLayer):
    """BERT's pooler: tanh(W h + b), where h is the output at the first token, `[CLS]`."""

    def build(self, input_shape: Any = None) -> None:
        """Makes the projection; the shape of the input does not matter."""
        size = self.config.hidden_size
        self.projection = self.dense(size, size, "dense", activation="tanh")

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """`[B, H]`."""
        return (None, self.config.hidden_size)

    def call(self, sequence_output: Any, training: bool | None = None) -> Any:
        """Returns vectors `[B, H]` from the encoder's output `[B, T, H]`."""
        return project(self.projection, sequence_output[:, 0], training)


@keras.saving.register_keras_serializable(package="keras_bert")
class Encoder(LowRankAdaptation, KerasMethods, Configured, HasPreprocessor, keras.Model):
    """The encoder of BERT (Devlin et al. 2018, https://arxiv.org/abs/1810.04805).

    The constructor makes all weights. The attribute `preprocessor`, which turns texts into inputs,
    is None in a new encoder. `keras_bert.load` sets it if the checkpoint has a tokenizer.

    If `config.embedding_size` differs from `config.hidden_size`, the embedding is projected
    (ALBERT, Lan et al. 2019, https://arxiv.org/abs/1909.11942, section 3.1). With
    `config.layer_groups`, layers share weights (same section). With `config.relative_positions`,
    attention is disentangled (DeBERTa, He et al. 2020, https://arxiv.org/abs/2006.03654).

    Args:
        config: the encoder's configuration.
        embeddings: another encoder's embedding layer, to share its weights. None makes a new layer.
        remat: whether training saves memory by rematerialization (Chen et al. 2016,
            https://arxiv.org/abs/1604.06174). Only the input of each layer is kept. The backward
            pass computes the other activations again. A `keras.RematScope` around the constructor
            does the same: with mode "full" for all layers, with "list_of_layers" for the layers
            with the given names ("layer_0", ...), and with "larger_than" for layers whose output
            is larger than the given size.
        **kwargs: `name` and `dtype`, as in every Keras model.

    Raises:
        InputError: if the shared embeddings have another width than `config.embedding_size`.

    Example:
        >>> encoder = Encoder(EncoderConfig.preset("bert_tiny"))
        >>> outputs = encoder({"token_ids": np.array([[101, 7592, 102, 0]], "int32"),
        ...                    "padding_mask": np.array([[1, 1, 1, 0]], "int32")})
        >>> outputs["sequence_output"].shape, outputs["pooled_output"].shape
        (TensorShape([1, 4, 128]), TensorShape([1, 128]))
    """

    arguments = ("remat",)

    def __init__(
        self,
        config: EncoderConfig,
        embeddings: EmbeddingSum | None = None,
        name: str = "encoder",
        *,
        remat: bool = False,
        **kwargs: Any,
    ):
        super().__init__(config, name=name, **kwargs)
        keep_freed_memory()
        self.remat = remat
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
            self.projection = self.dense(None, config.hidden_size, "projection")
        self.relative_positions = self.distance_bias = self.convolution = None
        if config.relative_positions:
            self.relative_positions = RelativePositions(
                config, name="relative_positions", dtype=self.dtype_policy
            )
        if config.bias_buckets:
            self.distance_bias = DistanceBias(config, name="distance_bias", dtype=self.dtype_policy)
        if config.convolution_size:
            self.convolution = TokenConvolution(config, name="convolution", dtype=self.dtype_policy)
        self.encoder_layers = [
            EncoderLayer(config, index, name=f"layer_{index}", dtype=self.dtype_policy)
            for index in range(config.num_distinct_layers)
        ]
        self.final_norm: Any = None
        self.pooler = None
        if config.pooler:
            self.pooler = FirstTokenPooler(config, name="pooler", dtype=self.dtype_policy)
        self.build(dict.fromkeys(used_inputs(config), self.ids_shape))
        self._tracker.unlock()  # so that the constructor of a subclass can add layers

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor and, if there are any, the quantized layers."""
        return add_policies(super().get_config(), self._flatten_layers())

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Makes an encoder from `get_config`'s dictionary."""
        values = dict(config)
        policies = values.pop(KEY, None)
        encoder = super().from_config(values)
        quantize_layers(encoder._flatten_layers(), policies)
        return encoder

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights of all parts. The constructor calls this method."""
        if not self.embeddings.built:
            self.embeddings.build((None, None))
        if self.projection is not None:
            self.projection.build((None, None, self.embeddings.width))
        if self.config.pre_norm:
            self.final_norm = self.layer_norm(self.config.hidden_size, "final_layer_norm")
        first = (self.relative_positions, self.distance_bias)
        for part in (*first, *self.encoder_layers, self.convolution, self.pooler):
            if part is not None:
                part.build((None, None, self.config.hidden_size))

    def get_build_config(self) -> None:
        """Returns None: the constructor builds the model."""

    def compute_output_shape(self, input_shape: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
        """Returns the shapes of the outputs for the shapes of the inputs."""
        batch, length = input_shape["token_ids"]
        shapes: dict[str, tuple[Any, ...]] = {
            "sequence_output": (batch, length, self.config.hidden_size)
        }
        if self.pooler is not None:
            shapes["pooled_output"] = (batch, self.config.hidden_size)
        return shapes

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the outputs' shapes and dtypes by a symbolic call, also of outputs on request."""
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool | None = None,
        return_hidden_states: bool = False,
        return_attentions: bool = False,
        decoder_positions: Any = None,
    ) -> dict[str, Any]:
        """Returns the encoder's outputs for a batch.

        Args:
            inputs: `[B, T]` int32 each, except `embeddings`; other entries are ignored.
                `token_ids`: required.
                `segment_ids`: zeros by default.
                `padding_mask`: 1 at tokens, 0 at padding; ones by default.
                `position_ids`: indices of rows in the position table, or the positions of rotary
                angles; consecutive by default.
                `document_ids`: for rows that hold several documents, each token's document, counted
                from 1 in each row, and 0 at padding. Documents do not attend to each other, and
                the positions of each document start at the first position.
                `embeddings`: `[B, T, E]` float, the output of `encoder.embeddings`, to use instead
                of the embeddings of `token_ids`.
            training: whether dropout is active.
            return_hidden_states: whether to return every layer's output.
            return_attentions: whether to return every layer's attention probabilities.
            decoder_positions: `[P, H]`, P ≥ T, embeddings of absolute positions for DeBERTa's
                enhanced mask decoder (section 3.2). The decoder adds them to the last layer's input
                and applies the last layer twice.

        Returns:
            A dictionary with these entries:
            `sequence_output`: `[B, T, H]`.
            `pooled_output`: `[B, H]`, if the configuration has a pooler. In a row of several
            documents, it is the output of the first document.
            `decoded_output`: `[B, T, H]`, if `decoder_positions` are given.
            `hidden_states`: list of the embedding and each layer's output `[B, T, H]`, on request.
            The last one is the `sequence_output`.
            `attentions`: list of each layer's attention probabilities `[B, N, T, T]`, on request.

        Raises:
            InputError: if `token_ids` are missing, or T is larger than the position table.
        """
        if "token_ids" not in inputs:
            raise InputError(f"The inputs hold {sorted(inputs)}, but need 'token_ids' [B, T].")
        token_ids = inputs["token_ids"]
        padding_mask = inputs.get("padding_mask")
        if padding_mask is None:
            padding_mask = ops.ones_like(token_ids)
        documents, position_ids = inputs.get("document_ids"), inputs.get("position_ids")
        if documents is not None:
            restarted = restarted_positions(documents)
            if position_ids is None:
                position_ids = restarted + self.config.position_offset
        x = inputs.get("embeddings")
        if x is None:
            x = self.embeddings(
                token_ids,
                inputs.get("segment_ids"),
                inputs.get("padding_mask"),
                position_ids,
                training=training,
            )
        if self.projection is not None:
            x = project(self.projection, x, training)
        batch, length, hidden_size = ops.shape(x)
        matrix = (batch * length, hidden_size)  # layers take a matrix
        inputs_of_attention = {
            windowed: self._bias_and_positions(
                windowed, token_ids, padding_mask, documents, position_ids, return_attentions
            )
            for windowed in {self.config.has_window(index) for index in self.config.layer_order}
        }
        hidden_states, attentions = [x], list[Any]()
        for index in self.config.layer_order:
            before = ops.reshape(x, matrix)
            bias, positions = inputs_of_attention[self.config.has_window(index)]
            layer = functools.partial(self.encoder_layers[index], training=training)
            if training and (self.remat or in_scope(self.encoder_layers[index], x)):
                layer = functools.partial(rematerialized, layer.func, training=training)
            x, probabilities = layer(before, bias, positions, need_probabilities=return_attentions)
            x = ops.reshape(x, (batch, length, hidden_size))
            if self.convolution is not None and len(hidden_states) == 1:  # after the first layer
                x = self.convolution(
                    hidden_states[0], x, padding_mask, documents, training=training
                )
            hidden_states.append(x)
            attentions.append(probabilities)
        if self.final_norm is not None:
            hidden_states[-1] = x = self.final_norm(x)
        outputs = {"sequence_output": x}
        if self.pooler is not None:
            outputs["pooled_output"] = self.pooler(x, training=training)
        if decoder_positions is not None:
            if isinstance(length, int) and length > decoder_positions.shape[0]:
                raise InputError(
                    f"The sequence has {length} tokens, but the mask decoder has "
                    f"{decoder_positions.shape[0]} positions; shorten the sequence_length."
                )
            if documents is None:
                absolute = decoder_positions[:length]
            else:
                table = ops.cast(decoder_positions, self.variable_dtype)
                absolute = lookup(table, restarted, self.compute_dtype)
            queries = ops.reshape(hidden_states[-2] + absolute, matrix)
            for _ in range(2):  # by the last layer, with its input
                queries, _ = layer(before, bias, positions, queries, need_probabilities=False)
            outputs["decoded_output"] = ops.reshape(queries, (batch, length, hidden_size))
        if return_hidden_states:
            outputs["hidden_states"] = hidden_states
        if return_attentions:
            outputs["attentions"] = attentions
        return outputs

    def _bias_and_positions(
        self,
        windowed: bool,
        token_ids: Any,
        padding_mask: Any,
        documents: Any,
        position_ids: Any,
        need_probabilities: bool,
    ) -> tuple[Any, Any]:
        """Returns `bias` and `positions` of `SelfAttention.call`.

        Args:
            windowed: whether they are for the layers with a window.
            token_ids: `[B, T]`.
            padding_mask: `[B, T]`.
            documents: `[B, T]`, or None.
            position_ids: `[B, T]`, or None.
            need_probabilities: whether the layers return probabilities.
        """
        config, positions = self.config, None
        order = ops.expand_dims(ops.arange(ops.shape(token_ids)[1]), 0)
        if config.rotary_base:
            base = (windowed and config.local_rotary_base) or config.rotary_base
            places = order if position_ids is None else position_ids
            positions = rotation(places, config.head_size, base)
        elif self.relative_positions is not None:
            positions = self.relative_positions(token_ids)
        if windowed and not need_probabilities:
            seen = sliding_window.seen_in_blocks(padding_mask, documents, config.attention_window)
        else:
            seen = padding_mask if documents is None else same_document(documents)
            if windowed:
                seen = ops.expand_dims(seen, 1) if seen.ndim == 2 else seen
                near = sliding_window.near(order[0], config.attention_window)
                seen = ops.logical_and(seen, near)
        hidden = (1.0 - ops.cast(seen, "float32")) * config.mask_value
        bias = ops.expand_dims(hidden, (1, 2) if seen.ndim == 2 else 1)
        if self.distance_bias is not None:
            bias = bias + ops.cast(self.distance_bias(order), "float32")
        return bias, positions
