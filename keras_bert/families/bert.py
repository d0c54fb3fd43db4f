"""BERT (Devlin et al. 2018) and Google's compact models (Turc et al. 2019).

https://arxiv.org/abs/1810.04805 and https://arxiv.org/abs/1908.08962; sizes as published in
github.com/google-research/bert. `vocabulary_size` is that of the English uncased vocabulary.
"""

from typing import Any

_SIZES = {  # layers, hidden size
    "bert_tiny": (2, 128),
    "bert_mini": (4, 256),
    "bert_small": (4, 512),
    "bert_medium": (8, 512),
    "bert_base": (12, 768),
    "bert_large": (24, 1024),
}

PRESETS: dict[str, dict[str, Any]] = {
    name: {
        "family": "bert",
        "vocabulary_size": 30522,
        "num_layers": num_layers,
        "hidden_size": hidden_size,
        "num_heads": hidden_size // 64,
        "intermediate_size": 4 * hidden_size,
    }
    for name, (num_layers, hidden_size) in _SIZES.items()
}
