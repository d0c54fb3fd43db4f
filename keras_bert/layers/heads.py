"""The heads: from the encoder's outputs to logits, always float32."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.layers.activations import ACTIVATION_FUNCTIONS
from keras_bert.layers.configured import Configured
from keras_bert.layers.documents import first_of_document


@keras.saving.register_keras_serializable(package="keras_bert")
class MaskedLMHead(Configured, keras.layers.Layer):
    """Dense, activation, LayerNorm, then the token embedding transposed, plus a bias per token.

    BERT, section 3.1, task 1. The output matrix is the embedding's own, an input here, unless the
    head is not `tied`: then it has a matrix `decoder` `[V, E]` of its own.

    Args:
        config: the encoder's configuration.
        tied: whether the output matrix is the token embedding.
        enhanced: whether the head has the absolute positions `[max_positions, H]` that the
            enhanced mask decoder of DeBERTa adds, and that the encoder's input then lacks.
    """

    def __init__(
        self, config: EncoderConfig, tied: bool = True, enhanced: bool = False, **kwargs: Any
    ):
        super().__init__(config, **kwargs)
        self.tied = tied
        self.enhanced = enhanced

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "tied": self.tied, "enhanced": self.enhanced}

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights; the shape of the input does not matter."""
        config = self.config
        self.transform = self.dense(
            config.embedding_size, "transform", activation=ACTIVATION_FUNCTIONS[config.activation]
        )
        self.transform.build((None, None, config.hidden_size))
        self.normalization = self.layer_norm("layer_norm")
        self.normalization.build((None, None, config.embedding_size))
        self.bias = self.add_weight(
            shape=(config.vocabulary_size,), initializer="zeros", name="bias"
        )
        if not self.tied:
            shape = (config.vocabulary_size, config.embedding_size)
            self.decoder = self.add_weight(
                shape=shape, initializer=self.initializer(), name="decoder"
            )
        self.position_embedding = None
        if self.enhanced:
            shape = (config.max_positions, config.hidden_size)
            self.position_embedding = self.add_weight(
                shape=shape, initializer=self.initializer(), name="position_embedding"
            )

    def call(self, sequence_output: Any, token_embedding: Any, masked_positions: Any = None) -> Any:
        """Scores every token of the vocabulary.

        Args:
            sequence_output: `[B, T, H]`.
            token_embedding: `[V, E]`; not used unless the head is tied.
            masked_positions: `[B, P]` int32, the positions to score, or None for all.

        Returns:
            `[B, P, V]` or `[B, T, V]` float32.
        """
        x = sequence_output
        if masked_positions is not None:
            # A product with a one-hot matrix picks the rows exactly; unlike a gather, its
            # gradient needs no scatter, which is slow on TPUs.
            one_hot = ops.one_hot(masked_positions, ops.shape(x)[1], dtype=x.dtype)
            x = ops.matmul(one_hot, x)  # [B, P, H]
        x = self.normalization(self.transform(x))
        table = ops.cast(token_embedding if self.tied else self.decoder, self.compute_dtype)
        return ops.cast(ops.matmul(x, ops.transpose(table)) + self.bias, "float32")


@keras.saving.register_keras_serializable(package="keras_bert")
class ClassificationHead(Configured, keras.layers.Layer):
    """Dropout, then one linear layer; with an activation, a dense layer before both.

    Args:
        config: the encoder's configuration.
        num_labels: number of logits.
        rate: of the dropout; None means the configuration's `classifier_dropout`.
        activation: of the dense layer `[H, H]`; "" means that there is none.
        input_dropout: whether there is dropout before that layer, too.
    """

    def __init__(
        self,
        config: EncoderConfig,
        num_labels: int,
        rate: float | None = None,
        activation: str = "",
        input_dropout: bool = False,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        self.num_labels = num_labels
        self.rate: Any = config.classifier_dropout if rate is None else rate
        self.activation = activation
        self.input_dropout = input_dropout

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        names = ("num_labels", "rate", "activation", "input_dropout")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights; the shape of the input does not matter."""
        self.dropout_layer = self.dropout(self.rate, "dropout")
        size, self.hidden = self.config.hidden_size, None
        if self.activation:
            activation = ACTIVATION_FUNCTIONS[self.activation]
            self.hidden = self.dense(size, "hidden", activation=activation)
            self.hidden.build((None, size))
        self.logits = self.dense(self.num_labels, "logits")
        self.logits.build((None, size))

    def call(self, x: Any, training: bool | None = None) -> Any:
        """`[..., H]` to `[..., num_labels]` float32."""
        if self.hidden is not None:
            x = self.hidden(self.dropout_layer(x, training=training) if self.input_dropout else x)
        return ops.cast(self.logits(self.dropout_layer(x, training=training)), "float32")


@keras.saving.register_keras_serializable(package="keras_bert")
class ReplacedTokenHead(Configured, keras.layers.Layer):
    """Dense, activation, one logit per token (ELECTRA, Clark et al. 2020, section 3.1).

    https://arxiv.org/abs/2003.10555

    Args:
        config: the encoder's configuration.
        context: whether the first token is added to every other and the sum layer-normalized
            before that, as in DeBERTa-v3's code, https://github.com/microsoft/DeBERTa.
    """

    def __init__(self, config: EncoderConfig, context: bool = False, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.context = context

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "context": self.context}

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights; the shape of the input does not matter."""
        size = self.config.hidden_size
        activation = ACTIVATION_FUNCTIONS[self.config.activation]
        if self.context:
            self.normalization = self.layer_norm("layer_norm")
            self.normalization.build((None, None, size))
        self.hidden = self.dense(size, "hidden", activation=activation)
        self.hidden.build((None, None, size))
        self.logits = self.dense(1, "logits")
        self.logits.build((None, None, size))

    def call(self, sequence_output: Any, document_ids: Any = None) -> Any:
        """`[B, T, H]` to `[B, T]` float32; `document_ids` `[B, T]` as of the encoder."""
        x = sequence_output
        if self.context:
            packed = document_ids is not None
            first = first_of_document(x, document_ids) if packed else x[:, :1]
            x = self.normalization(x + first)
        return ops.cast(self.logits(self.hidden(x))[..., 0], "float32")
