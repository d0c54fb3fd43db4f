import collections
import json

import pytest

from keras_bert.errors import InputError
from keras_bert.finetuning import read_intents, read_slots
from keras_bert.tasks.entities import spans_of

PARTS = [
    {"text": "play "},
    {"text": "Go, now", "entity": "album"},
    {"text": "'s by "},
    {"text": "Ada", "entity": "artist"},
    {"text": "Bob", "entity": "artist"},
    {"text": "\n", "entity": "sort"},
]


def write(folder, intent, *utterances):
    (folder / intent).mkdir()
    content = {intent: [{"data": parts} for parts in utterances]}
    (folder / intent / f"train_{intent}_full.json").write_text(json.dumps(content), "utf-8")


def test_slots_are_words(tmp_path):
    write(tmp_path, "PlayMusic", PARTS)
    write(tmp_path, "GetWeather", [{"text": "rain"}])
    examples = read_slots(tmp_path)
    assert examples.texts == ("rain", "play Go, now's by AdaBob\n")
    words = [examples.texts[1][start:end] for start, end in examples.words[1]]
    assert words == ["play", "Go", ",", "now", "'", "s", "by", "Ada", "Bob"]
    assert examples.tags[1] == (
        *("O", "B-album", "I-album", "I-album", "O", "O", "O"),
        *("B-artist", "B-artist"),
    )
    assert read_slots(tmp_path, scheme="bioes").tags[1][1:4] == ("B-album", "I-album", "E-album")
    intents = read_intents(tmp_path)
    assert (intents.texts, intents.labels) == (examples.texts, ("GetWeather", "PlayMusic"))
    assert intents.place(1) == f"{tmp_path}, train utterance 2"


@pytest.mark.private_data
def test_snips(shared_data):
    folder = shared_data / "datasets" / "snips"
    train, validation = read_intents(folder), read_intents(folder, "validation")
    assert (len(train), len(validation)) == (13_784, 700)
    assert set(collections.Counter(validation.labels).values()) == {100}
    assert not any("\ud800" <= character < "\ue000" for character in "".join(train.texts))
    slots = read_slots(folder)
    assert slots.texts == train.texts
    assert len({label for tags in slots.tags for label, _, _ in spans_of(tags)}) == 39


@pytest.mark.private_data
def test_every_slot_of_snips_is_an_entity(shared_data):
    assert_every_slot_is_an_entity(shared_data / "datasets" / "snips", "validate")


def test_every_slot_is_an_entity(tmp_path):
    weather = [{"text": " in "}, {"text": "New York, NY", "entity": "city"}, {"text": "?"}]
    write(tmp_path, "PlayMusic", PARTS[:4], PARTS[1:2])
    write(tmp_path, "GetWeather", weather)
    assert_every_slot_is_an_entity(tmp_path, "train")


def assert_every_slot_is_an_entity(folder, begin):
    found, expected = [], []
    slots = read_slots(folder, {"train": "train", "validate": "validation"}[begin])
    for text, words, tags in zip(slots.texts, slots.words, slots.tags, strict=True):
        for label, first, end in spans_of(tags):
            found.append((label, text[words[first][0] : words[end - 1][1]]))
    for path in sorted(folder.glob(f"*/{begin}_*.json")):
        for utterance in json.loads(path.read_bytes())[path.parent.name]:
            parts = [part for part in utterance["data"] if part["text"].strip()]
            expected += [(p["entity"], p["text"].strip()) for p in parts if "entity" in p]
    assert expected
    assert found == expected


def test_bad_files(tmp_path):
    with pytest.raises(InputError, match="has no directories"):
        read_intents(tmp_path)
    write(tmp_path, "PlayMusic", PARTS, [{"txt": ""}])
    with pytest.raises(InputError, match='_full.json, utterance 2: expected "data"'):
        read_slots(tmp_path)
    with pytest.raises(InputError, match="validate_PlayMusic.json cannot be read"):
        read_slots(tmp_path, "validation")
    with pytest.raises(InputError, match="no split 'test'"):
        read_slots(tmp_path, "test")
    (tmp_path / "PlayMusic" / "validate_PlayMusic.json").write_text("[]")
    with pytest.raises(InputError, match="expected 'PlayMusic', a list"):
        read_slots(tmp_path, "validation")
