import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.finetuning import hold_out
from keras_bert.finetuning.readers.questions import read_questions, write_predictions


def write(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def question(id, *answers, **others):
    pairs = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": "Who?", "answers": pairs, **others}


def squad(*paragraphs, title="Ada"):
    """Each paragraph is its context and its questions."""
    nodes = [{"context": context, "qas": list(qas)} for context, *qas in paragraphs]
    return {"title": title, "paragraphs": nodes}


def document(*articles):
    return {"version": "v2.0", "data": list(articles)}


@pytest.mark.private_data
def test_real_squad(shared_data):
    train = read_questions(shared_data / "datasets" / "squad" / "devsplit-v1.1-train.json")
    test = read_questions(shared_data / "datasets" / "squad" / "devsplit-v1.1-test.json")
    assert (len(train), len(test)) == (9189, 1381)
    assert not set(train.groups) & set(test.groups)
    for context, answers in zip(test.contexts, test.answers, strict=True):
        assert answers
        for text, start in answers:
            assert context[start : start + len(text)] == text
    left, held = hold_out(train, 0.1)
    assert not set(left.groups) & set(held.groups)


def test_squad_2(tmp_path):
    path = write(
        tmp_path,
        "squad.json",
        document(
            squad(
                ("Ada met Ada.", question("a", ("Ada", 8), ("Ada", 0)), question("b")),
                ("Bob.", question("c", ("Bob", 0), is_impossible=True)),
            ),
            squad(("Eve.", question("d", ("Eve", 0), is_impossible=False)), title="Eve"),
        ),
    )
    examples = read_questions(path)
    assert examples.ids == ("a", "b", "c", "d")
    assert examples.answers == ((("Ada", 8), ("Ada", 0)), (), (), (("Eve", 0),))
    assert examples.contexts == ("Ada met Ada.", "Ada met Ada.", "Bob.", "Eve.")
    assert examples.groups == ("Ada", "Ada", "Ada", "Eve")
    assert examples.place(1) == f"{path}, question 2 (b)"
    one = read_questions(write(tmp_path, "one.json", document(squad(("A", question("a"))))))
    assert one.groups is None


def test_paragraphs_of_one_article_are_groups(tmp_path):
    article = squad(("A", question("a"), question("b")), ("B", question("c")))
    examples = read_questions(write(tmp_path, "squad.json", document(article)))
    assert examples.groups == ("A", "A", "B")


def test_answers_that_are_not_in_their_context(tmp_path, caplog):
    article = squad(
        (
            "Ada met Bob.",
            question("a", ("Ada", 0)),
            question("b", ("Bob", 7)),
            question("c", ("Eve", 0)),
        )
    )
    path = write(tmp_path, "squad.json", document(article))
    with pytest.raises(
        InputError,
        match=r"squad.json, question 2 \(b\): the answer 'Bob' is not in its context at "
        "character 7, where ' Bo' stands, but at 8",
    ):
        read_questions(path)
    examples = read_questions(path, on_error="skip")
    assert (examples.ids, examples.lines) == (("a",), (1,))
    assert "2 of 3 examples are skipped" in caplog.text
    assert "question 3 (c): the answer 'Eve' is not in its context." in caplog.text


def test_answers_are_optional_for_prediction(tmp_path):
    qas = [{"id": "a", "question": "Who?"}, question("b", ("A", 0))]
    path = write(tmp_path, "squad.json", document(squad(("A", *qas))))
    assert read_questions(path, labeled=False).answers is None
    with pytest.raises(InputError, match=r"question 1 \(a\): the answer is missing"):
        read_questions(path)
    for content in ("question,context\nWho?,Ada\n", "question,context,answer\nWho?,Ada,Eve\n"):
        path = write(tmp_path, "data.csv", content)
        assert read_questions(path, labeled=False).answers is None


def test_tables(tmp_path):
    path = write(tmp_path, "a.csv", ",Question,passage,answer\n7,Who?,I am Ada. Ada!,Ada\n")
    examples = read_questions(path)
    assert (examples.questions, examples.contexts) == (("Who?",), ("I am Ada. Ada!",))
    assert examples.answers == ((("Ada", 5),),)
    assert (examples.ids, examples.place(0)) == (("2",), f"{path}, line 2 (2)")
    path = write(tmp_path, "b.tsv", "x\tWho?\tAda Ada\tAda\t4.0\ny\tWho?\tAda\tAda\t\n")
    columns = {"id": "1", "question": "2", "context": "3", "answer": "4", "answer_start": "5"}
    examples = read_questions(path, columns, header=False)
    assert (examples.ids, examples.answers) == (("x", "y"), ((("Ada", 4),), (("Ada", 0),)))
    path = write(
        tmp_path, "c.csv", "question,context,answer,is_impossible\nWho?,A,A,False\nWho?,B,,True\n"
    )
    assert read_questions(path).answers == ((("A", 0),), ())
    numbers = path.read_text().replace("False", "0.0").replace("True", "1.0")  # as pandas writes
    assert read_questions(write(tmp_path, "d.csv", numbers)).answers == ((("A", 0),), ())


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("Bob", (("Bob", 4),)),
        (["Bob", "Ada"], (("Bob", 4), ("Ada", 0))),
        ([{"text": "Ada", "answer_start": 8}], (("Ada", 8),)),
        ({"text": "Ada", "answer_start": 8}, (("Ada", 8),)),
        ({"text": ["Ada", "Ada"], "answer_start": [8, 0]}, (("Ada", 8), ("Ada", 0))),
        ({"text": [], "answer_start": []}, ()),
        ([], ()),
    ],
)
def test_forms_of_answers_in_json_lines(tmp_path, answers, expected):
    row = {"question": "Who?", "context": "Ada Bob Ada", "answers": answers}
    assert read_questions(write(tmp_path, "data.jsonl", row)).answers == (expected,)


def test_starts_beside_a_list_of_answers(tmp_path):
    row = {"question": "Who?", "context": "Ada Bob Ada", "answers": ["Ada"], "answer_start": [8]}
    assert read_questions(write(tmp_path, "data.jsonl", row)).answers == ((("Ada", 8),),)
    with pytest.raises(InputError, match="not in its context at character 3"):
        read_questions(write(tmp_path, "data.jsonl", row | {"answer_start": [3]}))


@given(
    contexts=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), min_size=1
    ),
    data=st.data(),
)
def test_answers_slice_their_contexts(tmp_path_factory, contexts, data):
    paragraphs = []
    for index, context in enumerate(contexts):
        start = data.draw(st.integers(0, len(context) - 1))
        text = context[start : data.draw(st.integers(start + 1, len(context)))]
        if text.strip():
            paragraphs.append((context, question(str(index), (text, start))))
    if paragraphs:
        path = write(tmp_path_factory.mktemp("s"), "squad.json", document(squad(*paragraphs)))
        examples = read_questions(path)
        for (context, qa), read in zip(paragraphs, examples.answers, strict=True):
            assert [{"text": text, "answer_start": start} for text, start in read] == qa["answers"]
            assert all(context[start : start + len(text)] == text for text, start in read)


def test_empty_contexts_answer_nothing(tmp_path):
    path = write(tmp_path, "squad.json", document(squad(("", question("a")))))
    assert (read_questions(path).contexts, read_questions(path).answers) == (("",), ((),))
    path = write(tmp_path, "bad.json", document(squad(("", question("a", ("Ada", 0))))))
    with pytest.raises(InputError, match="the answer 'Ada' is not in its context"):
        read_questions(path)


def test_a_context_of_100_000_words(tmp_path):
    context = "word " * 100_000 + "end"
    article = squad((context, question("a", ("end", 500_000))))
    examples = read_questions(write(tmp_path, "squad.json", document(article)))
    assert examples.answers == ((("end", 500_000),),)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("squad.json", "", "squad.json, line 1: this is not JSON"),
        ("squad.json", '{"data": [\n}', "squad.json, line 2: this is not JSON"),
        ("squad.json", [], 'expected "data", a list of objects, as in SQuAD'),
        ("squad.json", {"data": []}, "has no questions"),
        ("squad.json", {"data": [{"title": "T"}]}, "article 'T': expected \"paragraphs\""),
        ("squad.json", document(squad(("A", question("a", ("", 0))))), "an answer is ''"),
        ("squad.json", document(squad(("A", question("a", ("A", -1))))), "at character -1"),
        ("squad.json", document(squad(("A", question("a", ("A", "x"))))), "'x', not a number"),
        ("squad.json", document(squad((None, question("a")))), "the context is None"),
        ("squad.json", document(squad(("A", question("a"), question("a")))), "has the id 'a', too"),
        ("data.csv", "question,context,answer\nWho?,Ada,\n", "line 2: the answer is missing"),
        ("data.csv", "question,context,answer\nWho?,Ada,Bob\n", "line 2: the answer 'Bob' is not"),
        ("data.csv", "query,text2,answer\nWho?,Ada,Bob\n", "which column holds the context"),
        ("data.jsonl", {"question": "?", "context": "A", "answers": 3}, "the answers are 3"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read_questions(write(tmp_path, name, content))


def test_bad_arguments(tmp_path):
    path = write(tmp_path, "data.csv", "question,context,answer\nWho?,Ada,Ada\n")
    with pytest.raises(InputError, match="no column 'contxt'. Did you mean 'context'"):
        read_questions(path, {"context": "contxt"})
    with pytest.raises(InputError, match="have no 'contxt'. Did you mean 'context'"):
        read_questions(path, {"contxt": "context"})
    with pytest.raises(InputError, match="no format 'xml'"):
        read_questions(path, format="xml")
    with pytest.raises(InputError, match="none.json cannot be read"):
        read_questions(tmp_path / "none.json")


def test_predictions_have_the_official_form(tmp_path):
    write_predictions({"a": "Zoë", "b": ""}, tmp_path / "predictions.json")
    assert json.loads((tmp_path / "predictions.json").read_text("utf-8")) == {"a": "Zoë", "b": ""}
    write_predictions({"a": 0.25}, tmp_path / "predictions.json")
    assert json.loads((tmp_path / "predictions.json").read_text("utf-8")) == {"a": 0.25}
