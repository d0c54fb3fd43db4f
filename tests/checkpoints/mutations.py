"""Damage to the files of a checkpoint, drawn from a seed.

What counts as silently wrong is a model that loads, without a word, with other numbers than the
undamaged one. No format can show that one valid value took the place of another (a bit of a
float, an epsilon, how many heads share the hidden size, whether a text is lowered), so damage
here is to structure, or to values that something else in the checkpoint contradicts.
"""

import json
import struct

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.checkpoints.test_google import tensors_of, write

# Fields whose values nothing else in a checkpoint contradicts, and files that are all such.
FREE = {
    "activation",
    "add_cross_attention",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "dropout",
    "hidden_act",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "initializer_range",
    "is_decoder",
    "labels",
    "label2id",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "mask_value",
    "num_attention_heads",
    "num_heads",
    "pad_token_id",
    "pooling",
    "problem_type",
    "task",
    "tie_word_embeddings",
    "tied",
}
TEXT_FILES = {
    "preprocessor.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
}
VALUES = (
    None, True, False, 0, -1, 3, 10**6, 10**12, 10**30, 0.5, -0.1, 1e308, float("nan"),
    float("inf"), "", "12", "gelu", "../x", "\ud800", [], [1, "a"], {}, {"a": {"b": None}},
)  # fmt: skip


def mutate(random, directory):
    """Damages a copy of a checkpoint.

    Args:
        random: a NumPy generator.
        directory: the copy.

    Returns:
        What was done, and whether a model with other numbers may come of it.
    """
    return random.choice(MUTATIONS)(random, directory)


def flip_bytes(random, directory):
    path = _pick(random, directory, "*.safetensors", "*.index")
    data = bytearray(path.read_bytes())
    end = 8 + struct.unpack("<Q", data[:8])[0] if path.suffix == ".safetensors" else len(data)
    places = random.integers(0, end, random.integers(1, 4))
    for place in places:
        data[place] ^= int(random.integers(1, 256))
    path.write_bytes(bytes(data))
    return f"bytes {places} of {path.name} flipped", False


def cut_off(random, directory):
    path = _pick(random, directory, "*")
    data = path.read_bytes()
    kept = int(random.integers(0, len(data)))
    path.write_bytes(data[:kept])
    # A shorter list of tokens is a list of tokens.
    return f"{path.name} cut off after {kept} of {len(data)} bytes", path.name == "vocab.txt"


def add_rubbish(random, directory):
    path = _pick(random, directory, "*")
    data = path.read_bytes()
    place = int(random.integers(0, len(data)))
    rubbish = random.bytes(int(random.integers(1, 40)))
    if path.suffix in (".safetensors", ".data-00000-of-00001"):
        place = 0
    path.write_bytes(data[:place] + rubbish + data[place:])
    free = path.name in TEXT_FILES | {"vocab.txt"}
    return f"{rubbish!r} in {path.name} at {place}", free


def remove(random, directory):
    path = _pick(random, directory, "*")
    path.unlink()
    return f"{path.name} removed", path.name in TEXT_FILES | {"vocab.txt"}


def make_folder(random, directory):
    path = _pick(random, directory, "*")
    path.unlink()
    path.mkdir()
    return f"{path.name} is a directory", path.name in TEXT_FILES | {"vocab.txt"}


def drop_tensor(random, directory):
    tensors, write_back = _tensors(random, directory)
    name = _any(random, tensors)
    del tensors[name]
    write_back(tensors)
    return f"{name} dropped", False


def rename_tensor(random, directory):
    tensors, write_back = _tensors(random, directory)
    name = _any(random, tensors)
    other = _any(random, [name + "x", name[1:], "../" + name, "", name.upper(), name[::-1]])
    tensors[other] = tensors.pop(name)
    write_back(tensors)
    return f"{name} renamed to {other!r}", False


def reshape_tensor(random, directory):
    tensors, write_back = _tensors(random, directory)
    name = _any(random, tensors)
    x = tensors[name]
    tensors[name] = _any(
        random, [x[:-1], x[None], x.reshape(-1, 1), x[..., None], x[:0], np.concatenate([x, x])]
    )
    write_back(tensors)
    return f"{name} {list(x.shape)} has shape {list(tensors[name].shape)}", False


def retype_tensor(random, directory):
    tensors, write_back = _tensors(random, directory)
    name = _any(random, tensors)
    kind = _any(random, ["int32", "int8", "uint8", "bool", "int64"])
    tensors[name] = tensors[name].astype(kind)
    write_back(tensors)
    return f"{name} is {kind}", False


def spoil_tensor(random, directory):
    tensors, write_back = _tensors(random, directory)
    name = _any(random, tensors)
    value = _any(random, [np.nan, np.inf, -np.inf])
    tensors[name] = tensors[name].copy()
    tensors[name].flat[int(random.integers(tensors[name].size))] = value
    write_back(tensors)
    return f"{name} holds {value}", False


def edit_header(random, directory):
    """Changes what a safetensors file says of a tensor: type, shape, place."""
    path = _pick(random, directory, "*.safetensors", "*.json")
    if path.suffix == ".json":
        return edit_json(random, directory)
    data = path.read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    name = _any(random, [name for name in header if name != "__metadata__"])
    key = _any(random, ["dtype", "shape", "data_offsets"])
    value = _any(random, [*VALUES, "F16", "I32", [2**40, 2**40], [-1, 2], [0, 2**62], [4, 0]])
    if value == "\ud800":
        value = "x"
    header[name][key] = value
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[end:])
    return f"{key} of {name} in {path.name} is {value!r}", False


def edit_json(random, directory):
    path = _pick(random, directory, "*.json")
    values = json.loads(path.read_text())
    owner, place = values, []
    while True:
        keys = list(owner) if isinstance(owner, dict) else range(len(owner))
        place.append(_any(random, list(keys)))
        inner = owner[place[-1]]
        if not isinstance(inner, (dict, list)) or not inner or random.random() < 0.2:
            break
        owner = inner
    before = owner[place[-1]]
    if random.random() < 0.25:
        del owner[place[-1]]
        what = "dropped"
    else:
        owner[place[-1]] = _any(random, VALUES)
        what = f"{owner[place[-1]]!r} instead of {str(before)[:40]!r}"
    path.write_text(json.dumps(values), encoding="utf-8")
    free = path.name in TEXT_FILES or bool(FREE & set(map(str, place)))
    return f"{path.name}: {'/'.join(map(str, place))} {what}", free


def edit_index(random, directory):
    """Lets the index of shards name other files; elsewhere as `edit_json`."""
    path = directory / "model.safetensors.index.json"
    if not path.exists():
        return edit_json(random, directory)
    values = json.loads(path.read_text())
    name = _any(random, values["weight_map"])
    shards = sorted(set(values["weight_map"].values()))
    tricks = [
        *(shard for shard in shards if shard != values["weight_map"][name]),
        *("../model.safetensors", "/etc/passwd", "..", "", "config.json", "a/../" + shards[0]),
        *("\0", 7, None, [shards[0]], "./" + shards[0], shards[0] + "/", "x" * 5000),
    ]
    values["weight_map"][name] = _any(random, tricks)
    path.write_text(json.dumps(values))
    return f"{name} is said to be in {str(values['weight_map'][name])[:60]!r}", False


MUTATIONS = [
    flip_bytes, flip_bytes, cut_off, add_rubbish, remove, make_folder, drop_tensor, rename_tensor,
    reshape_tensor, retype_tensor, spoil_tensor, edit_header, edit_json, edit_json, edit_json,
    edit_index,
]  # fmt: skip


def _any(random, items):
    items = sorted(items) if isinstance(items, dict) else list(items)
    return items[int(random.integers(len(items)))]


def _pick(random, directory, *patterns):
    return _any(random, sorted(path for pattern in patterns for path in directory.glob(pattern)))


def _tensors(random, directory):
    """The tensors of one file, and how to write them back."""
    path = _pick(random, directory, "*.safetensors", "*.index")
    if path.suffix == ".safetensors":

        def write_safetensors(tensors):
            save_file({n: np.ascontiguousarray(x) for n, x in tensors.items()}, path)

        return load_file(path), write_safetensors
    prefix = path.with_suffix("")
    return tensors_of(prefix), lambda tensors: write(tensors, prefix)
