"""One step of an optimizer for one variable, on one device."""

import tensorflow as tf

from keras_bert.pretraining.published import BETA_1, BETA_2, EPSILON


def adamw_update(
    variable: tf.Variable,
    gradient: tf.Tensor,
    momentum: tf.Variable,
    velocity: tf.Variable,
    *,
    rate: tf.Tensor,
    powers: tuple[tf.Tensor, tf.Tensor],
    decay: float | None,
    betas: tuple[float, float] = (BETA_1, BETA_2),
    epsilon: float = EPSILON,
) -> None:
    """Updates a variable and its moments on one device, as algorithm 2 of the paper.

    Args:
        variable: the variable, of any shape; the others have the same.
        gradient: of the loss.
        momentum: first moment.
        velocity: second moment.
        rate: learning rate, scalar.
        powers: of `betas`, for the number of this update, counted from 1.
        decay: per unit of learning rate; None for a weight that does not decay.
        betas: of the moments.
        epsilon: beside the root of the corrected second moment.
    """
    if decay:
        variable.assign(variable * (1 - rate * decay))
    beta_1, beta_2 = (tf.cast(beta, variable.dtype) for beta in betas)
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=momentum.handle,
        v=velocity.handle,
        beta1_power=powers[0],
        beta2_power=powers[1],
        lr=rate,
        beta1=beta_1,
        beta2=beta_2,
        # The kernel adds it before the second moment is corrected: far more, in the first steps.
        epsilon=tf.cast(epsilon, variable.dtype) * tf.sqrt(1 - powers[1]),
        grad=gradient,
    )


def lamb_update(
    variable: tf.Variable,
    gradient: tf.Tensor,
    momentum: tf.Variable,
    velocity: tf.Variable,
    *,
    rate: tf.Tensor,
    powers: tuple[tf.Tensor, tf.Tensor],
    decay: float | None,
    betas: tuple[float, float] = (BETA_1, BETA_2),
    epsilon: float = EPSILON,
) -> None:
    """Updates a variable and its moments on one device; arguments as `adamw_update`."""
    beta_1, beta_2 = betas
    mean = momentum.assign(beta_1 * momentum + (1 - beta_1) * gradient) / (1 - powers[0])
    square = velocity.assign(beta_2 * velocity + (1 - beta_2) * gradient**2) / (1 - powers[1])
    step = mean / (tf.sqrt(square) + epsilon)
    if decay is not None:
        step += decay * variable
        ratio = tf.math.divide_no_nan(tf.norm(variable), tf.norm(step))
        step *= tf.where(ratio > 0, ratio, 1.0)
    variable.assign_sub(rate * step)
