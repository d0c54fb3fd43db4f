"""AdamW as it stands in the paper, in float64."""

import numpy as np


def adamw(
    weights, gradients, *, rates, multipliers, decays, clip=np.inf, betas=(0.9, 0.999), epsilon=1e-6
):
    """Loshchilov and Hutter 2017, algorithm 2, after clipping by the norm of all gradients.

    Args:
        weights: arrays.
        gradients: by step, one array for each weight.
        rates: of the steps.
        multipliers: factor of the rate for each weight.
        decays: of the weights.
        clip: largest norm.
        betas: of the moments.
        epsilon: beside the root.
    """
    weights = [np.array(weight, np.float64) for weight in weights]
    first, second = ([np.zeros_like(weight) for weight in weights] for _ in range(2))
    for step, several in enumerate(gradients, start=1):
        norm = np.sqrt(sum((gradient**2).sum() for gradient in several))
        for index, gradient in enumerate(several):
            gradient = gradient * min(1, clip / norm)
            rate = rates[step - 1] * multipliers[index]
            first[index] = betas[0] * first[index] + (1 - betas[0]) * gradient
            second[index] = betas[1] * second[index] + (1 - betas[1]) * gradient**2
            mean = first[index] / (1 - betas[0] ** step)
            root = np.sqrt(second[index] / (1 - betas[1] ** step)) + epsilon
            decayed = rate * decays[index] * weights[index]
            weights[index] = weights[index] - decayed - rate * mean / root
    return weights
