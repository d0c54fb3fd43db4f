import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.finetuning import ChoiceExamples, QuestionExamples, hold_out
from tests.finetuning import tiny


def test_take_keeps_what_is_not_known():
    examples = ChoiceExamples(
        path="a.csv", lines=(2, 3, 5), contexts=("a", "b", "c"), choices=(("x", "y"),) * 3
    )
    some = examples.take([2, 0])
    assert (some.lines, some.contexts, some.labels, some.groups) == ((5, 2), ("c", "a"), None, None)
    assert (len(some), some.place(0)) == (2, "a.csv, line 5")
    assert some.inputs == (["c", "c", "a", "a"], ["x", "y", "x", "y"])


def test_hold_out_takes_a_ratio_by_seed():
    examples = tiny.examples([f"t{i}" for i in range(50)], ["a"] * 50)
    left, held = hold_out(examples, 0.2, seed=3)
    assert len(held) == 10
    assert sorted(left.lines + held.lines) == list(examples.lines)
    assert hold_out(examples, 0.2, seed=3)[1] == held
    assert hold_out(examples, 0.2, seed=4)[1] != held
    for ratio in (0, 1, 0.999):
        with pytest.raises(InputError):
            hold_out(examples, ratio)


def questions(groups):
    count = len(groups)
    return QuestionExamples(
        path="squad.json",
        lines=tuple(range(1, count + 1)),
        unit="question",
        groups=tuple(groups),
        ids=tuple(f"q{i}" for i in range(count)),
        questions=("?",) * count,
        contexts=("c",) * count,
        answers=((),) * count,
    )


@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=9),
    ratio=st.floats(0.01, 0.5),
    seed=st.integers(0, 9),
)
def test_hold_out_does_not_divide_groups(sizes, ratio, seed):
    groups = [f"article {i}" for i, size in enumerate(sizes) for _ in range(size)]
    examples = questions(groups)
    left, held = hold_out(examples, ratio, seed)
    assert sorted(left.ids + held.ids) == sorted(examples.ids)
    assert not set(left.groups) & set(held.groups)
    count = max(1, round(ratio * len(groups)))
    if min(sizes) > count:
        assert len(held) == min(sizes)
    else:
        room = count - len(held)
        assert 0 <= room < min(groups.count(group) for group in left.groups)


def test_one_group_is_not_divided():
    with pytest.raises(InputError, match="4 examples in 1 groups, too few"):
        hold_out(questions(["one"] * 4), 0.5)
