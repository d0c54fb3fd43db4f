"""What BERT's authors chose for Adam (section A.2, and optimization.py in their code)."""

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-6

NOT_DECAYED = ("bias", "layer_norm")
"""Parts of the names of weights that do not decay."""


def decays(name: str) -> bool:
    """Whether weight decay applies to the weight of this name."""
    return not any(part in name for part in NOT_DECAYED)
