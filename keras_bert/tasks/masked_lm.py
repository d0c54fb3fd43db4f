"""Masked language model: prediction of masked tokens."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import MaskedLMHead
from keras_bert.tasks.task import Task


@keras.saving.register_keras_serializable(package="keras_bert")
class MaskedLanguageModel(Task):
    """An encoder with the masked language model head of BERT (section 3.1, task 1).

    Args:
        encoder: the encoder.
        tied: whether the output matrix is the token embedding.
        activation: activation of the head; None means the encoder's activation.
        layer_norm_epsilon: epsilon of the head; None means the encoder's epsilon. (The activation
            and the epsilon are arguments of their own because KerasHub's heads and encoders
            differ in them.)
        enhanced: whether the last layer decodes the masked tokens with the help of absolute
            positions: the enhanced mask decoder of DeBERTa (He et al. 2020,
            https://arxiv.org/abs/2006.03654, section 3.2).
        legacy: whether files for transformers use the older names of the head's tensors, in
            families that have two sets of names. This argument has no other effect.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Raises:
        InputError: if the activation or the epsilon is not valid, or if the model is `enhanced`
            and its encoder has position embeddings at its input.

    Example:
        >>> encoder = keras_bert.Encoder(keras_bert.EncoderConfig.preset("bert_tiny"))
        >>> model = MaskedLanguageModel(encoder)
        >>> inputs = {"token_ids": np.ones((2, 8), "int32"),
        ...           "masked_positions": np.array([[1, 4], [2, 3]], "int32")}
        >>> model(inputs).shape
        TensorShape([2, 2, 30522])
    """

    per_token = True
    reads_special_tokens = True
    arguments = ("tied", "activation", "layer_norm_epsilon", "enhanced", "legacy")

    def __init__(
        self,
        encoder: Encoder,
        *,
        tied: bool = True,
        activation: str | None = None,
        layer_norm_epsilon: float | None = None,
        enhanced: bool = False,
        legacy: bool = True,
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        if enhanced and not self.config.positions_in_head:
            raise InputError(
                "An enhanced mask decoder is for encoders without absolute or rotary positions; "
                "set position_input to false and rotary_base to 0."
            )
        self.tied = tied
        self.enhanced = enhanced
        self.legacy = legacy
        self.activation = activation or self.config.activation
        self.layer_norm_epsilon = layer_norm_epsilon or self.config.layer_norm_epsilon
        config = self.config.replace(
            activation=self.activation, layer_norm_epsilon=self.layer_norm_epsilon
        )
        self.head = MaskedLMHead(config, tied, enhanced, name="masked_lm", dtype=self.dtype_policy)
        self.head.build((None, None, config.hidden_size))

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns logits `[B, T, V]` float32 of the encoder's inputs.

        If the inputs have `masked_positions` `[B, P]` int32, the logits are `[B, P, V]`.
        """
        outputs = self.encode(inputs, training=training)
        return self.score(outputs, inputs.get("masked_positions"), training)

    def encode(self, inputs: Mapping[str, Any], training: bool | None = None) -> dict[str, Any]:
        """Returns the encoder's outputs for the head."""
        positions = self.head.position_embedding
        return self.encoder(inputs, training=training, decoder_positions=positions)

    def score(
        self,
        outputs: Mapping[str, Any],
        masked_positions: Any = None,
        training: bool | None = None,
    ) -> Any:
        """Returns logits for the outputs of `encode`.

        The logits are `[B, T, V]`, or `[B, P, V]` if `masked_positions` `[B, P]` are given.
        """
        x = outputs["decoded_output" if self.enhanced else "sequence_output"]
        table = self.encoder.embeddings.token_embedding
        return self.head(x, table, masked_positions, training=training)
