"""`update_rules` in place: one step of an optimizer for one TensorFlow variable, on one device."""

import tensorflow as tf

from keras_bert.optimizers.update_rules import Update, Weight, lamb


def adamw_update(
    variable: tf.Variable,
    gradient: tf.Tensor,
    momentum: tf.Variable,
    velocity: tf.Variable,
    decay: float | None,
    update: Update,
) -> None:
    """Updates a variable and its moments as `update_rules.adamw`, by TensorFlow's fused kernel."""
    if decay:
        variable.assign(variable * (1 - update.rate * decay))
    beta_1, beta_2 = (tf.cast(beta, variable.dtype) for beta in update.betas)
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=momentum.handle,
        v=velocity.handle,
        beta1_power=update.powers[0],
        beta2_power=update.powers[1],
        lr=update.rate,
        beta1=beta_1,
        beta2=beta_2,
        # The kernel adds it before the second moment is corrected: far more, in the first steps.
        epsilon=tf.cast(update.epsilon, variable.dtype) * tf.sqrt(1 - update.powers[1]),
        grad=gradient,
    )


def lamb_update(
    variable: tf.Variable,
    gradient: tf.Tensor,
    momentum: tf.Variable,
    velocity: tf.Variable,
    decay: float | None,
    update: Update,
) -> None:
    """Updates a variable and its moments as `update_rules.lamb`."""
    variables = (variable, momentum, velocity)
    weight = Weight(*(tf.convert_to_tensor(x) for x in variables))
    for old, new in zip(variables, lamb(weight, gradient, decay, update), strict=True):
        old.assign(new)
