"""Layers that turn the encoder's outputs into one vector per text, or into float32 logits."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError, closest
from keras_bert.layers.configured import ACTIVATION_FUNCTIONS, ConfiguredLayer
from keras_bert.layers.documents import first_of_document
from keras_bert.layers.fused import project

POOLINGS = ("pooled", "first", "last", "mean", "weighted", "max", "attention", "late")


@keras.saving.register_keras_serializable(package="keras_bert")
class TextPooling(ConfiguredLayer):
    """Pools the encoder's outputs to one vector per text.

    Args:
        config: the encoder's configuration.
        mode: one of these methods:
            "pooled": the output of the encoder's pooler.
            "first" or "last": the vector of the first or the last token.
            "mean": mean of all tokens without padding.
            "weighted": mean weighted by the position, from 1.
            "max": largest value of each entry.
            "attention": mean weighted by softmax(w·h), with a learned vector w (Yang et al. 2016,
            https://aclanthology.org/N16-1174).
            "late": mean of act(W h + b), with `config.classifier_activation` as act.

    Raises:
        InputError: if the mode is unknown, or the encoder lacks the pooler for "pooled" or the
            `classifier_activation` for "late".
    """

    arguments = ("mode",)

    def __init__(self, config: EncoderConfig, mode: str, **kwargs: Any):
        super().__init__(config, **kwargs)
        if mode not in POOLINGS:
            raise InputError(
                f"There is no pooling {mode!r}.{closest(mode, POOLINGS)}"
                f" Choose one of {', '.join(POOLINGS)}."
            )
        if mode == "pooled" and not config.pooler:
            raise InputError("This encoder has no pooler; choose pooling 'first' or 'mean'.")
        if mode == "late" and not config.classifier_activation:
            raise InputError("Pooling 'late' needs a classifier_activation, such as 'gelu'.")
        self.mode = mode

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights if the mode needs them."""
        size, config = self.config.hidden_size, self.config
        if self.mode == "attention":
            self.score = self.dense(size, 1, "score", use_bias=False)
        if self.mode == "late":
            activation = ACTIVATION_FUNCTIONS[config.classifier_activation]
            options = {"activation": activation, "use_bias": config.head_bias}
            self.hidden = self.dense(size, size, "hidden", **options)

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """`[B, H]`."""
        return (None, self.config.hidden_size)

    def call(self, outputs: dict[str, Any], padding_mask: Any, training: bool | None = None) -> Any:
        """Returns vectors `[B, H]` from the encoder's outputs and the mask `[B, T]` int32."""
        x = outputs["sequence_output"]
        if self.mode == "pooled":
            return outputs["pooled_output"]
        if self.mode == "first":
            return x[:, 0]
        mask = ops.cast(ops.expand_dims(padding_mask, -1), "float32")  # [B, T, 1]
        if self.mode == "max":
            return ops.max(
                ops.where(mask > 0, x, ops.cast(self.config.mask_value, x.dtype)), axis=1
            )
        if self.mode == "attention":
            scores = ops.cast(self.score(x), "float32") + (1.0 - mask) * self.config.mask_value
            weights = ops.softmax(scores, axis=1)
        else:
            weights = mask
            if self.mode == "late":
                x = project(self.hidden, x, training)
            elif self.mode != "mean":
                weights = mask * ops.cast(ops.arange(1, ops.shape(x)[1] + 1), "float32")[:, None]
            if self.mode == "last":
                last = ops.max(weights, axis=1, keepdims=True)
                weights = ops.cast(ops.equal(weights, last), "float32")
            weights = weights / ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)
        return ops.sum(x * ops.cast(weights, x.dtype), axis=1)


@keras.saving.register_keras_serializable(package="keras_bert")
class MaskedLMHead(ConfiguredLayer):
    """Dense, activation, LayerNorm, product with an output matrix `[V, E]`, plus a bias per token.

    Without `config.masked_lm_transform`, only the product is left. If the head is `tied`, the
    output matrix is the token embedding, an argument of `call`. Otherwise the output matrix is the
    head's own weight `decoder`. See BERT, section 3.1, task 1.

    Args:
        config: the encoder's configuration.
        tied: whether the output matrix is the token embedding.
        enhanced: whether the head has the table of absolute positions `[max_positions, H]` for
            DeBERTa's enhanced mask decoder. Then the encoder's input has no positions.
    """

    arguments = ("tied", "enhanced")

    def __init__(
        self, config: EncoderConfig, tied: bool = True, enhanced: bool = False, **kwargs: Any
    ):
        super().__init__(config, **kwargs)
        self.tied = tied
        self.enhanced = enhanced

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights; the shape of the input does not matter."""
        config = self.config
        activation, size = ACTIVATION_FUNCTIONS[config.activation], config.embedding_size
        self.transform = self.bias = None
        if config.masked_lm_transform:
            options = {"activation": activation, "use_bias": config.head_bias}
            self.transform = self.dense(config.hidden_size, size, "transform", **options)
            self.normalization = self.layer_norm(size, "layer_norm")
            self.bias = self.add_weight((config.vocabulary_size,), initializer="zeros", name="bias")
        if not self.tied:
            self.decoder = self.matrix(config.vocabulary_size, size, "decoder")
        self.position_embedding = None
        if self.enhanced:
            self.position_embedding = self.matrix(
                config.max_positions, config.hidden_size, "position_embedding"
            )

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """`[B, T, V]`."""
        return (None, None, self.config.vocabulary_size)

    def call(
        self,
        sequence_output: Any,
        token_embedding: Any,
        masked_positions: Any = None,
        training: bool | None = None,
    ) -> Any:
        """Scores every token of the vocabulary.

        Args:
            sequence_output: `[B, T, H]`.
            token_embedding: `[V, E]`; used if the head is tied.
            masked_positions: `[B, P]` int32, positions to score, or None for all.
            training: whether there will be a gradient.

        Returns:
            `[B, P, V]` or `[B, T, V]` float32.
        """
        x = sequence_output
        if masked_positions is not None:
            # A product with a one-hot matrix selects the rows exactly. Its gradient needs no
            # scatter, which is slow on TPUs.
            one_hot = ops.one_hot(masked_positions, ops.shape(x)[1], dtype=x.dtype)
            x = ops.matmul(one_hot, x)  # [B, P, H]
        if self.transform is not None:
            x = self.normalization(project(self.transform, x, training))
        table = ops.cast(token_embedding if self.tied else self.decoder, self.compute_dtype)
        logits = ops.matmul(x, ops.transpose(table))
        return ops.cast(logits if self.bias is None else logits + self.bias, "float32")


@keras.saving.register_keras_serializable(package="keras_bert")
class ClassificationHead(ConfiguredLayer):
    """Dropout, then one linear layer. If there is an activation, a dense layer comes before both.

    If `config.prediction_head`, a normalization follows the dense layer.

    Args:
        config: the encoder's configuration.
        num_labels: number of logits.
        rate: dropout rate; None means the configuration's `classifier_dropout`.
        activation: activation of the dense layer `[H, H]`; "" means that there is no dense layer.
        input_dropout: whether there is dropout before the dense layer, too.
    """

    arguments = ("num_labels", "rate", "activation", "input_dropout")

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

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights; the shape of the input matters for `output_shape` only."""
        self.dropout_layer = self.dropout(self.rate, "dropout")
        size, self.hidden, self.normalization = self.config.hidden_size, None, None
        if self.activation:
            activation, bias = ACTIVATION_FUNCTIONS[self.activation], self.config.head_bias
            self.hidden = self.dense(size, size, "hidden", activation=activation, use_bias=bias)
            if self.config.prediction_head:
                self.normalization = self.layer_norm(size, "layer_norm")
        self.logits = self.dense(size, self.num_labels, "logits")

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """`[..., num_labels]` for inputs `[..., H]`."""
        return (*self.get_build_config()["input_shape"][:-1], self.num_labels)

    def call(self, x: Any, training: bool | None = None) -> Any:
        """Returns logits `[..., num_labels]` float32 for vectors `[..., H]`."""
        if self.hidden is not None:
            x = self.dropout_layer(x, training=training) if self.input_dropout else x
            x = project(self.hidden, x, training)
        if self.normalization is not None:
            x = self.normalization(x)
        x = self.dropout_layer(x, training=training)
        return ops.cast(project(self.logits, x, training), "float32")


@keras.saving.register_keras_serializable(package="keras_bert")
class ReplacedTokenHead(ConfiguredLayer):
    """Dense, activation, one logit per token (ELECTRA, Clark et al. 2020, section 3.1).

    https://arxiv.org/abs/2003.10555

    Args:
        config: the encoder's configuration.
        context: whether the head first adds the first token to every token and layer-normalizes
            the sum, as in DeBERTa-v3's code, https://github.com/microsoft/DeBERTa.
    """

    arguments = ("context",)

    def __init__(self, config: EncoderConfig, context: bool = False, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.context = context

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights; the shape of the input does not matter."""
        size = self.config.hidden_size
        activation = ACTIVATION_FUNCTIONS[self.config.activation]
        if self.context:
            self.normalization = self.layer_norm(size, "layer_norm")
        self.hidden = self.dense(size, size, "hidden", activation=activation)
        self.logits = self.dense(size, 1, "logits")

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """`[B, T]`."""
        return (None, None)

    def call(
        self, sequence_output: Any, document_ids: Any = None, training: bool | None = None
    ) -> Any:
        """Returns a logit for every token.

        Args:
            sequence_output: `[B, T, H]`.
            document_ids: `[B, T]` int32, as in `Encoder.call`.
            training: whether there will be a gradient.

        Returns:
            Logits `[B, T]` float32.
        """
        x = sequence_output
        if self.context:
            packed = document_ids is not None
            first = first_of_document(x, document_ids) if packed else x[:, :1]
            x = self.normalization(x + first)
        x = project(self.hidden, x, training)
        return ops.cast(project(self.logits, x, training)[..., 0], "float32")
