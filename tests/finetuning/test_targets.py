import pytest

from keras_bert.errors import InputError
from keras_bert.finetuning import label_names, problem_type_of, targets_of
from tests.finetuning import tiny


@pytest.mark.parametrize(
    ("labels", "problem", "names"),
    [
        (["10", "9", "10"], "single_label", ("9", "10")),
        (["b", "a", "10"], "single_label", ("10", "a", "b")),
        (["1.5", "2"], "regression", ("score",)),
        (["1.0", "2.0"], "single_label", ("1.0", "2.0")),
    ],
)
def test_problem_types_and_names(labels, problem, names):
    examples = tiny.examples("t" * len(labels), labels)
    assert problem_type_of(examples) == problem
    assert label_names(examples, problem) == names


@pytest.mark.parametrize(
    ("labels", "problem", "message"),
    [
        ([f"text {n}" for n in range(20)], "single_label", "the 20 examples has another"),
        (["a", "a"], "single_label", "all examples have the label 'a'"),
        (["a", "b"], "regression", "line 2: the label is 'a', but this model needs a number"),
        (["a", "b"], "multi_label", "line 2: the label is 'a', but this model wants a list"),
        ([("a",), ("b",)], "single_label", r"the label is \('a',\), but this model wants one"),
        (["a", "c"], "single_label", "line 3: the label 'c' is unknown"),
    ],
)
def test_bad_labels(labels, problem, message):
    examples = tiny.examples("t" * len(labels), labels)

    def names_and_targets():
        label_names(examples, problem)
        targets_of(examples, ("a", "b"), problem)

    with pytest.raises(InputError, match=message):
        names_and_targets()
