import json

import pytest

from keras_bert.errors import InputError
from keras_bert.finetuning import read_choices

SWAG = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
)


def write(folder, name, content):
    path = folder / name
    if isinstance(content, list):
        content = "\n".join(json.dumps(row) for row in content)
    path.write_text(content, "utf-8")
    return path


def test_swag(tmp_path):
    row = '0,v1,3,"Ada runs. She","Ada runs.",She,gold,"falls, hard.",wins.,sleeps.,sings.,1'
    examples = read_choices(write(tmp_path, "train.csv", f"{SWAG}\n{row}\n"))
    assert examples.contexts == ("Ada runs.",)
    assert examples.choices == (("She falls, hard.", "She wins.", "She sleeps.", "She sings."),)
    assert (examples.labels, examples.lines) == ((1,), (2,))
    header, row = SWAG.removesuffix(",label"), row.removesuffix(",1")
    path = write(tmp_path, "test.csv", f"{header}\n{row}\n")
    assert read_choices(path, labeled=False).labels is None
    with pytest.raises(InputError, match="which column holds the label"):
        read_choices(path)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("premise,choice1,choice2,label", "It rained.,wet,dry,0"),
        ("goal,sol1,sol2,label", "It rained.,wet,dry,0"),
        ("question,option_a,option_b,answer", "It rained.,wet,dry,wet"),
        ("premise,choice2,choice1,label", "It rained.,dry,wet,0.0"),
    ],
)
def test_columns_are_found_by_their_usual_names(tmp_path, header, row):
    examples = read_choices(write(tmp_path, "data.csv", f"{header}\n{row}\n"))
    assert examples.contexts == ("It rained.",)
    assert (examples.choices, examples.labels) == ((("wet", "dry"),), (0,))


def test_columns_are_in_the_order_of_their_numbers(tmp_path):
    names = [f"ending{number}" for number in range(11)]
    header = ",".join(["label", "text", *sorted(names)])  # ending10 before ending2
    examples = read_choices(
        write(tmp_path, "data.csv", f"{header}\n2,a,{','.join(sorted(names))}\n")
    )
    assert (examples.choices, examples.labels) == ((tuple(names),), (2,))


def test_columns_are_named(tmp_path):
    path = write(tmp_path, "data.tsv", "2\tb\ta\twhy\n1\td\tc\thow\n")
    examples = read_choices(
        path,
        text_column="4",
        choice_column=("3", "2"),
        label_column="1",
        header=False,
        first_index=1,
    )
    assert examples.contexts == ("why", "how")
    assert (examples.choices, examples.labels) == ((("a", "b"), ("c", "d")), (1, 0))


def test_lists_of_choices(tmp_path):
    rows = [
        {"context": "a", "choices": ["x", "y", "z"], "label": 2},
        {"context": "", "choices": ["z", "y", "x"], "label": 0},
    ]
    path = write(tmp_path, "data.jsonl", rows)
    examples = read_choices(path)
    assert read_choices(path, choice_column="choices") == examples
    assert (examples.contexts, examples.labels) == (("a", ""), (2, 0))
    assert examples.choices == (("x", "y", "z"), ("z", "y", "x"))


def test_labels_that_are_texts(tmp_path):
    rows = [
        {"context": "1 + 1", "choices": ["1", "2"], "label": "2"},
        {"context": "0 + 1", "choices": ["1", "0"], "label": 1},
    ]
    assert read_choices(write(tmp_path, "texts.jsonl", rows)).labels == (1, 0)
    rows[1]["label"] = 0
    rows[1]["choices"] = ["1", "3"]  # 0 is not among them, so labels are numbers
    rows[0]["label"] = 1
    assert read_choices(write(tmp_path, "numbers.jsonl", rows)).labels == (1, 0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"context": "a", "choices": ["x"], "label": 0}, "must be a list of two texts or more"),
        ({"context": "a", "choices": ["x", " "], "label": 0}, "must be a list of two texts"),
        ({"context": "a", "choices": "xy", "label": 0}, "'choices' is 'xy'"),
        ({"context": "a", "choices": ["x", "y", "z"], "label": 0}, "3 choices, but the first"),
        ({"context": "a", "choices": ["x", "y"], "label": 2}, "label is 2, but .* numbered 0 to 1"),
        ({"context": "a", "choices": ["x", "y"], "label": "z"}, "label 'z' is none of the choices"),
        ({"context": "a", "choices": ["x", "x"], "label": "x"}, "label 'x' is two of the choices"),
        ({"context": "a", "choices": ["x", "y"], "label": -1}, "label '-1' is none"),
        ({"context": "a", "choices": ["x", "y"]}, "the label is missing"),
        ({"context": 3, "choices": ["x", "y"], "label": 0}, "'context' is 3"),
    ],
)
def test_bad_rows(tmp_path, caplog, row, message):
    good = {"context": "a", "choices": ["x", "y"], "label": 1}
    path = write(tmp_path, "data.jsonl", [good, row])
    with pytest.raises(InputError, match=message) as error:
        read_choices(path)
    assert f"{path}, line 2" in str(error.value)
    assert read_choices(path, on_error="skip").labels == (1,)
    assert "1 of 2 examples are skipped" in caplog.text


def test_bad_columns(tmp_path):
    path = write(tmp_path, "data.csv", "context,ending0,ending1,label\na,x,y,0\nb,z,,1\n")
    with pytest.raises(InputError, match="line 3: 'ending1' is ''"):
        read_choices(path)
    with pytest.raises(InputError, match="no column 'ending9'. Did you mean"):
        read_choices(path, choice_column=("ending0", "ending9"))
    path = write(tmp_path, "none.csv", "context,label\na,0\n")
    with pytest.raises(InputError, match="which column holds the choices"):
        read_choices(path)
