import math

import pytest

from keras_bert.pretraining.training.hooks import MEDIAN_LOOPS, LossWatch


def follow(losses):
    """The first trouble of a run and the last good step, a look after every step."""
    watch = LossWatch()
    for step, loss in enumerate(losses, 1):
        trouble = watch.trouble(step, {"loss": loss})
        if trouble:
            return step, trouble, watch.good_step
    return None


def test_a_run_that_learns_is_left_alone():
    assert follow([10 * 0.9**n + (n % 7) / 10 for n in range(200)]) is None


def test_a_run_that_forgets_half_of_what_it_learned_is_reported():
    step, trouble, good_step = follow([10.0] * 20 + [2.0] * 30 + [8.0] * 30)
    assert 50 < step <= 50 + MEDIAN_LOOPS
    assert "diverges" in trouble
    assert good_step == 50
    assert follow([10.0] * 20 + [2.0] * 30 + [4.5] * 30) is None  # less than half of the first
    assert follow([10.0] * 20 + [6.0] * 30 + [11.0] * 30) is None  # less than twice the lowest
    assert follow([10.0] * 20 + [2.0] * 30 + [40.0] + [2.0] * 30) is None  # one bad batch


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_reported_at_once(bad):
    assert follow([3.0, 2.0, bad]) == (3, "The loss is no longer finite at step 3", 2)
    watch = LossWatch()
    assert "finite" in watch.trouble(1, {"loss": 1.0, "gradient_norm": bad})
