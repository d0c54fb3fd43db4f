"""What a worker says when the others are lost."""

import pytest
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.pretraining.workers import Workers


class Strategy(tf.distribute.MultiWorkerMirroredStrategy):
    """The second one of two."""

    cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": ["a:1", "b:1"]}), task_type="worker", task_id=1
    )

    def __init__(self):
        pass


def test_a_worker_tells_what_stopped_it():
    error = tf.errors.InternalError(None, None, "No room for 7 bytes.\nAt node 3.")
    with pytest.raises(InputError) as refusal, Workers(Strategy()).together():
        raise error
    assert str(refusal.value) == (
        "Worker 1 of 2 stops, since another one has stopped or cannot be reached, or it failed "
        "itself (No room for 7 bytes); see what the others say, and start all of them again: they "
        "go on from the last checkpoint."
    )
    with pytest.raises(tf.errors.InternalError), Workers(tf.distribute.get_strategy()).together():
        raise error
