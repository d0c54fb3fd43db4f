"""AdamW and StableAdamW as they stand in the papers, in float64."""

import numpy as np


def adamw(
    weights,
    gradients,
    *,
    rates,
    multipliers,
    decays,
    clip=np.inf,
    betas=(0.9, 0.999),
    epsilon=1e-6,
    stable=False,
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
        stable: whether to lower the rates as in Wortsman et al. 2023, algorithm 2.
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
            square = second[index] / (1 - betas[1] ** step)
            if stable:
                rms = np.sqrt(np.mean(gradient**2 / np.maximum(square, epsilon**2)))
                rate = rate / max(1, rms)
            root = np.sqrt(square) + epsilon
            decayed = rate * decays[index] * weights[index]
            weights[index] = weights[index] - decayed - rate * mean / root
    return weights
