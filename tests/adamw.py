"""AdamW as it stands in the paper, in float64."""

import numpy as np


def adamw(weights, gradients, *, rates, shares, decays, clip=np.inf):
    """Loshchilov and Hutter 2017, algorithm 2, after clipping by the norm of all gradients.

    Args:
        weights: arrays.
        gradients: by step, one array for each weight.
        rates: of the steps.
        shares: of the rate, of the weights.
        decays: of the weights.
        clip: largest norm.
    """
    weights = [np.array(weight, np.float64) for weight in weights]
    first, second = ([np.zeros_like(weight) for weight in weights] for _ in range(2))
    for step, several in enumerate(gradients, start=1):
        norm = np.sqrt(sum((gradient**2).sum() for gradient in several))
        for index, gradient in enumerate(several):
            gradient = gradient * min(1, clip / norm)
            rate = rates[step - 1] * shares[index]
            first[index] = 0.9 * first[index] + 0.1 * gradient
            second[index] = 0.999 * second[index] + 0.001 * gradient**2
            mean = first[index] / (1 - 0.9**step)
            root = np.sqrt(second[index] / (1 - 0.999**step)) + 1e-6
            decayed = rate * decays[index] * weights[index]
            weights[index] = weights[index] - decayed - rate * mean / root
    return weights
