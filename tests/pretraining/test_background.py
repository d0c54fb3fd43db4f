import threading

import pytest

from keras_bert.pretraining.background import Background


def test_only_the_next_work_or_the_end_waits():
    free, done = threading.Event(), []
    with Background() as background:
        background.start(lambda: done.append(free.wait(60)))
        assert not done  # and this thread goes on
        free.set()
        background.start(lambda: done.append("second"))
        assert done[0] is True
    assert done == [True, "second"]


def test_what_the_work_raises_is_raised_by_whoever_waits():
    def fail():
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"), Background() as background:
        background.start(fail)
    with Background() as background:
        background.start(fail)
        with pytest.raises(OSError, match="full"):
            background.wait()
        background.wait()  # reported once


def test_a_failure_can_be_looked_at_without_waiting():
    free = threading.Event()

    def fail():
        free.wait(60)
        raise OSError("the disk is full")

    with Background() as background:
        assert not background.has_failed()
        background.start(fail)
        assert not background.has_failed()
        free.set()
        assert "full" in str(background.failure())
        assert background.failure() is None  # reported once
        assert not background.has_failed()
