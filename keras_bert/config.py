"""`EncoderConfig`, the configuration of the encoders of all families."""

import dataclasses
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.errors import InputError, closest

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu")

FOLLOWING = {
    "embedding_size": "hidden_size",
    "num_key_value_heads": "num_heads",
    "classifier_dropout": "hidden_dropout",
}
"""Fields that have another field's value by default."""

_PRESETS: ChainMap[str, Mapping[str, Any]] = ChainMap()


@keras.saving.register_keras_serializable(package="keras_bert")
@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Configuration of an encoder: its sizes, activation, regularization and parts.

    The defaults are those of BERT (Devlin et al. 2018, https://arxiv.org/abs/1810.04805).

    Args:
        family: name of the family, a key of `keras_bert.families.FAMILIES`.
        vocabulary_size: number of token ids.
        hidden_size: width H of the encoder.
        num_layers: number of encoder layers.
        num_heads: number of attention heads per layer. It must divide `hidden_size`.
        num_key_value_heads: number of heads of keys and values, each for a group of the queries'
            heads (Ainslie et al. 2023, https://arxiv.org/abs/2305.13245); 0 means `num_heads`.
        intermediate_size: width of the feed-forward layer.
        embedding_size: width of the token embedding; 0 means `hidden_size`.
        activation: activation of the feed-forward layer: "gelu" (exact, with erf), "gelu_tanh"
            (its tanh approximation), "relu" or "silu".
        layer_norm_epsilon: number added to the variance in every layer normalization.
        max_positions: largest number of tokens in a sequence.
        projection_first: whether the embedding's projection to `hidden_size` has no bias and comes
            before the embedding's layer normalization. Otherwise it comes after the embedding's
            dropout. Without effect if `embedding_size` equals `hidden_size`.
        position_offset: row of the first position in the position table. If the offset is not 0,
            padding has the row before the first position, and positions count only tokens.
        position_input: whether the encoder's input has position embeddings.
        num_segments: number of segment ids. 0 means no segment embedding; 1 means that all tokens
            have the same segment embedding.
        num_task_types: number of rows in an embedding of the pretraining task (Sun et al. 2019,
            https://arxiv.org/abs/1907.12412, section 3). Every token gets the first row. 0 means no
            such embedding.
        layer_groups: number of groups of layers that share their weights; 0 means that every
            layer has its own weights.
        layers_per_group: number of different layers in a group, applied one after the other.
        hidden_dropout: dropout rate after the embedding, each attention and each feed-forward
            block.
        attention_dropout: dropout rate on the attention probabilities.
        initializer_range: standard deviation of the truncated normal initializer.
        mask_value: number added to the attention logits of padding. -1e4 is exact in float32 and
            fits float16. For full int8 quantization, use a value from -30 to -100.
        pooler: whether the encoder has BERT's pooler, a dense tanh layer on the first token.
        classifier_activation: activation of a dense layer of width H in the classification head,
            "tanh" or one of `ACTIVATIONS`; "" means that there is no dense layer.
        classifier_input_dropout: whether there is dropout before this dense layer, too.
        classifier_dropout: dropout rate before the logits of a classification head; None means
            `hidden_dropout`.
        key_bias: whether the projection to the attention's keys has a bias.
        relative_positions: largest distance that disentangled attention distinguishes; 0 means
            ordinary attention.
        position_buckets: number of buckets for distances on each side, wider at larger distances;
            0 means one bucket for each distance.
        position_terms: terms that disentangled attention adds: "c2p" (content to position), "p2c"
            (position to content), or both.
        shared_position_keys: whether relative positions are projected with the weights of the
            content's queries and keys.
        relative_layer_norm: whether the relative position embedding is layer-normalized.
        convolution_size: kernel size of the convolution parallel to the first layer, an odd
            number; 0 means no convolution.
        convolution_activation: activation of the convolution, "tanh" or one of `ACTIVATIONS`.
        pre_norm: whether each block normalizes its input instead of the sum of input and output.
            Then a normalization follows the last layer.
        embedding_norm: whether the embedding is normalized.
        rms_norm: whether normalizations divide by the root mean square and do not subtract the
            mean (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467).
        norm_bias: whether layer normalizations add a bias.
        attention_bias: whether the projections of attention have a bias.
        intermediate_bias: whether the feed-forward block's first layers have a bias.
        output_bias: whether the feed-forward block's last layer has a bias.
        gated: whether the feed-forward block multiplies the activated layer by a second, linear
            layer (GEGLU and SwiGLU; Shazeer 2020, https://arxiv.org/abs/2002.05202).
        rotary_base: base of rotary positions; 0 means none.
        local_rotary_base: base in layers with a window; 0 means `rotary_base`.
        attention_window: largest distance that layers with a window attend to; 0 means no window.
        global_interval: interval n of the layers without a window: layers 0, n, 2n and so on. 0
            means that all layers have a window.
        bias_buckets: number of buckets of distances with a learned bias of the attention logits
            (T5, Raffel et al. 2020, https://arxiv.org/abs/1910.10683, section 2.1); 0 means none.
        prediction_head: whether all classification heads, also those of tokens and spans, begin
            with a dense layer, `classifier_activation` and a normalization.
        head_bias: whether the heads' dense layers before the logits have a bias.
        masked_lm_transform: whether the masked language model's head has a dense layer, an
            activation, a normalization and a bias for each token id.

    Raises:
        InputError: if a value is out of its range, or two values contradict each other.

    Example:
        >>> EncoderConfig.preset("bert_base").hidden_size
        768
    """

    family: str = "bert"
    vocabulary_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    embedding_size: int = 0
    num_key_value_heads: int = 0
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-12
    max_positions: int = 512
    projection_first: bool = False
    position_offset: int = 0
    position_input: bool = True
    num_segments: int = 2
    num_task_types: int = 0
    layer_groups: int = 0
    layers_per_group: int = 1
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    initializer_range: float = 0.02
    mask_value: float = -1e4
    pooler: bool = True
    classifier_activation: str = ""
    classifier_input_dropout: bool = False
    classifier_dropout: float | None = None
    key_bias: bool = True
    relative_positions: int = 0
    position_buckets: int = 0
    position_terms: tuple[str, ...] = ("c2p", "p2c")
    shared_position_keys: bool = False
    relative_layer_norm: bool = False
    convolution_size: int = 0
    convolution_activation: str = "tanh"
    pre_norm: bool = False
    embedding_norm: bool = True
    rms_norm: bool = False
    norm_bias: bool = True
    attention_bias: bool = True
    intermediate_bias: bool = True
    output_bias: bool = True
    gated: bool = False
    rotary_base: float = 0.0
    local_rotary_base: float = 0.0
    attention_window: int = 0
    global_interval: int = 0
    bias_buckets: int = 0
    prediction_head: bool = False
    head_bias: bool = True
    masked_lm_transform: bool = True

    def __post_init__(self) -> None:
        for name, followed in FOLLOWING.items():
            unset = (None,) if name == "classifier_dropout" else (0, None)
            if getattr(self, name) in unset:
                object.__setattr__(self, name, getattr(self, followed))
        if isinstance(self.position_terms, list):  # JSON has no tuples
            object.__setattr__(self, "position_terms", tuple(self.position_terms))
        for name in ("num_layers", "layers_per_group"):
            _check(self, name, _is_integer(getattr(self, name), 1, 1000), "from 1 to 1000")
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if name in _FROM_ZERO:
                _check(self, name, _is_integer(value, 0), "a whole number from 0")
            elif field.type is int:
                _check(self, name, _is_integer(value, 1), "a whole number of 1 or more")
            elif field.type is bool:
                _check(self, name, isinstance(value, bool), "true or false")
        dropouts = ("hidden_dropout", "attention_dropout", "classifier_dropout")
        for name in (*dropouts, "layer_norm_epsilon", "initializer_range"):
            _check(self, name, _is_number(getattr(self, name), 0, 1), "a number from 0 to below 1")
        _check(self, "mask_value", _is_number(self.mask_value, -1e38, 0), "a negative number")
        for name, more in (("", ()), ("classifier_", ("", "tanh")), ("convolution_", ("tanh",))):
            name, known = f"{name}activation", (*more, *ACTIVATIONS)
            _check(self, name, getattr(self, name) in known, _or(known))
        terms = self.position_terms
        holds = isinstance(terms, tuple) and all(term in ("c2p", "p2c") for term in terms)
        _check(self, "position_terms", holds, 'made of "c2p" and "p2c"')
        size = self.convolution_size
        _check(self, "convolution_size", size == 0 or size % 2 == 1, "an odd number, or 0")
        _check(self, "position_buckets", self.position_buckets % 2 == 0, "an even number")
        buckets = self.bias_buckets
        holds = buckets == 0 or (buckets % 2 == 0 and 4 <= buckets <= 256)
        _check(self, "bias_buckets", holds, "0 or an even number from 4 to 256")
        for name in ("rotary_base", "local_rotary_base"):
            _check(self, name, _is_number(getattr(self, name), 0, 1e12), "a number from 0")
        if self.hidden_size % self.num_heads:
            raise InputError(
                f"hidden_size {self.hidden_size} cannot be divided among num_heads "
                f"{self.num_heads}; choose a multiple of {self.num_heads}."
            )
        if self.num_heads % self.num_key_value_heads:
            raise InputError(
                f"num_heads {self.num_heads} cannot be divided among num_key_value_heads "
                f"{self.num_key_value_heads}; choose a divisor of {self.num_heads}."
            )
        if self.num_key_value_heads < self.num_heads and self.relative_positions:
            raise InputError("num_key_value_heads cannot be combined with relative_positions.")
        if self.layer_groups and self.num_layers % self.layer_groups:
            raise InputError(
                f"num_layers {self.num_layers} cannot be divided among layer_groups "
                f"{self.layer_groups}; choose a multiple of {self.layer_groups}."
            )
        if self.rotary_base and (self.relative_positions or self.head_size % 2):
            raise InputError(
                "rotary_base needs heads of even width and no relative_positions; the width is "
                f"{self.head_size}, and relative_positions is {self.relative_positions}."
            )
        if (self.attention_window or self.local_rotary_base) and not self.rotary_base:
            raise InputError("Layers with a window need rotary positions; set rotary_base.")
        if self.attention_window and self.bias_buckets:
            raise InputError("attention_window cannot be combined with bias_buckets.")
        if self.embedding_size != self.hidden_size and not self.masked_lm_transform:
            raise InputError(
                f"Without masked_lm_transform, embedding_size {self.embedding_size} must equal "
                f"hidden_size {self.hidden_size}."
            )
        if self.prediction_head and not self.classifier_activation:
            raise InputError("prediction_head needs a classifier_activation, such as 'gelu'.")
        if self.pre_norm and (self.layer_groups or self.relative_positions):
            raise InputError("pre_norm cannot be combined with layer_groups or relative_positions.")
        if self.layers_per_group > 1 and not self.layer_groups:
            raise InputError(
                f"layers_per_group {self.layers_per_group} needs layer_groups; set layer_groups to "
                "1 or more."
            )

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_heads

    @property
    def positions_in_head(self) -> bool:
        """Whether the heads of pretraining add absolute positions, as in DeBERTa."""
        return not (self.position_input or self.rotary_base)

    def has_window(self, layer: int) -> bool:
        """Returns whether the layer with this index attends to near tokens only."""
        is_global = self.global_interval > 0 and layer % self.global_interval == 0
        return self.attention_window > 0 and not is_global

    @property
    def layer_order(self) -> tuple[int, ...]:
        """Index of each layer's weights: 0, 1, ... unless layers share their weights."""
        if not self.layer_groups:
            return tuple(range(self.num_layers))
        return tuple(
            group * self.layers_per_group + layer
            for group in range(self.layer_groups)
            for _ in range(self.num_layers // self.layer_groups)
            for layer in range(self.layers_per_group)
        )

    @property
    def num_distinct_layers(self) -> int:
        """Number of layers that do not share the weights of an earlier layer."""
        return self.layer_order[-1] + 1

    def replace(self, **changes: Any) -> "EncoderConfig":
        """Returns a copy with some fields changed.

        If `embedding_size` equals `hidden_size`, it changes together with `hidden_size`. In the
        same way, `num_key_value_heads` changes together with `num_heads`, and `classifier_dropout`
        with `hidden_dropout`.
        """
        for name, followed in FOLLOWING.items():
            if followed in changes and getattr(self, name) == getattr(self, followed):
                changes.setdefault(name, None)
        return EncoderConfig.from_dict({**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as a dictionary that JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EncoderConfig":
        """Makes a configuration from the dictionary of `to_dict`.

        Raises:
            InputError: if a field is unknown, missing or out of range.
        """
        needed = {f.name: f.default is dataclasses.MISSING for f in dataclasses.fields(cls)}
        for name in values:
            if name not in needed:
                raise InputError(
                    f"The encoder has no option {name!r}.{closest(str(name), needed)}"
                    f" The options are {', '.join(needed)}."
                )
        missing = [name for name in needed if needed[name] and name not in values]
        if missing:
            raise InputError(f"The encoder needs these options: {', '.join(missing)}.")
        return cls(**values)

    get_config = to_dict
    from_config = from_dict

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "EncoderConfig":
        """Returns the configuration of a published model size, with some fields changed.

        Args:
            name: name of the preset, such as "bert_base".
            **changes: fields with values that differ from the preset.

        Raises:
            InputError: if there is no such preset, or a changed value is not valid.
        """
        if name not in _PRESETS:
            raise InputError(
                f"There is no preset {name!r}.{closest(name, _PRESETS)}"
                f" The presets are {', '.join(_PRESETS)}."
            )
        return cls.from_dict({**_PRESETS[name], **changes})


def register_presets(presets: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds published sizes, by name, to `EncoderConfig.preset`."""
    _PRESETS.maps.append(presets)  # type: ignore[arg-type]


_FROM_ZERO = (
    "num_segments",
    "num_task_types",
    "position_offset",
    "layer_groups",
    "relative_positions",
    "position_buckets",
    "convolution_size",
    "attention_window",
    "global_interval",
    "bias_buckets",
)


def _or(values: tuple[str, ...]) -> str:
    return " or ".join(value or "''" for value in values)


def _is_integer(value: Any, low: int, high: int = 2**31 - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_number(value: Any, low: float, high: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value < high


def _check(config: EncoderConfig, name: str, holds: bool, expected: str) -> None:
    if not holds:
        raise InputError(f"{name} is {getattr(config, name)!r}, but must be {expected}.")
