"""Adds a tokenizer of onnxruntime-extensions to an ONNX file, so that the file takes texts.

The tokenizers of onnxruntime-extensions differ from this package's tokenizers. The library's
WordPiece strips the accents of only a few letters and keeps control characters. If a piece of a
word is not in the vocabulary, the library keeps the earlier pieces of the word, but BERT replaces
the whole word by `[UNK]`. `tests/export/test_onnx_text.py` counts the differences.

A program that opens such a file must register the library:
`SessionOptions.register_custom_ops_library(onnxruntime_extensions.get_library_path())`.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from keras_bert.errors import InputError
from keras_bert.export._onnx import runtime
from keras_bert.export.artifact_checks import ExportError, Run, explaining
from keras_bert.export.process import running
from keras_bert.export.signatures import WITHOUT_TEXT, input_names
from keras_bert.layers.configured import INPUTS
from keras_bert.tasks.registry import task_of

logger = logging.getLogger(__name__)

DOMAIN = "ai.onnx.contrib"
_ONE, _PIECES = "one_text", "pieces"  # a tokenizer's input, strings [1], and output, int64 [n]
_TEXTS = [
    "Text in, answers out.",
    "",
    "a",
    "Ein Café, \u4e2d\u6587!",
    "\u0219i \u011f \u0301",
    "Cafe\u0301",  # a tokenizer may compose the last two characters
]
_LONGEST_WORD = 100  # number of characters that the library's WordPiece accepts
_LABELS = ("single_label", "multi_label")


def with_text(proto: onnx.ModelProto, model: Any) -> onnx.ModelProto:
    """Changes a file to take `text` `[batch]` instead of ids.

    Texts are cut to the preprocessor's length and padded to the longest text of the batch. A new
    output `token_ids` has their ids. A `SequenceClassifier` also gives `labels` `[batch, L]` and,
    if a text has one label, `label` `[batch]`. A regression gives neither.

    Args:
        proto: the file, changed in place. `token_ids`, `segment_ids` and `padding_mask` become
            inner tensors.
        model: a model with a preprocessor.

    Raises:
        InputError: if the library does not have the model's tokenizer.
    """
    graph = proto.graph
    nodes, constants = reading(model)
    taken = {tensor.name for tensor in graph.input}
    del graph.input[:]
    graph.input.append(helper.make_tensor_value_info("text", TensorProto.STRING, ["batch"]))
    nodes = [node for node in nodes if set(node.output) - (set(INPUTS) - taken)]
    answers, names = _best_label(model)
    inner = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *inner, *answers])
    graph.initializer.extend([*constants, *names])
    ids = helper.make_tensor_value_info("token_ids", TensorProto.INT32, ["batch", "sequence"])
    graph.output.append(ids)
    shapes: dict[str, tuple[int, list[str | int | None]]] = {
        "labels": (TensorProto.STRING, ["batch", len(getattr(model, "labels", ()))]),
        "label": (TensorProto.STRING, ["batch"]),
        "score": (TensorProto.FLOAT, ["batch"]),
    }
    for name, (dtype, axes) in shapes.items():
        if any(name in node.output for node in answers):
            graph.output.append(helper.make_tensor_value_info(name, dtype, axes))
    proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return proto


def compare_texts(model: Any, from_ids: Run, path: str | os.PathLike) -> None:
    """Checks that the file gives the same outputs for texts as for the ids of these texts.

    Texts whose ids differ from the model's are not compared. The file runs in its own process,
    because the library's SentencePiece crashes in a process with TensorFlow.

    Raises:
        ExportError: if the outputs differ.
    """
    tried = [*_TEXTS, _long_word(model.preprocessor.tokenizer)]
    texts = np.array([text.encode() for text in tried], object)
    ids = {name: np.asarray(value) for name, value in model.text_preprocessor(tried).items()}
    with explaining("Running the ONNX file on texts"), running(path) as process:
        read = process.run(runtime.SIGNATURE, {"text": texts})["token_ids"]
        same = (read == ids["token_ids"][:, : read.shape[1]]).all(axis=1)
        answers = process.run(runtime.SIGNATURE, {"text": texts[same]})
        length = ids["padding_mask"][same].sum(axis=1).max()
        expected = from_ids({name: ids[name][same, :length] for name in input_names(model)})
        for name, value in expected.items():
            if not np.allclose(answers[name], value, rtol=1e-4, atol=1e-4):
                raise ExportError(f"{name} of texts differ from {name} of their ids")
    if not same.all():
        logger.warning(
            "onnxruntime-extensions reads some texts differently from the model, such as %r; "
            "their answers differ.",
            next(text for text, equal in zip(tried, same, strict=True) if not equal),
        )


def _long_word(tokenizer: Any) -> str:
    """Makes a word that is too long for ONNX Runtime's tokenizer or for ours."""
    return "x" * (1 + min(_LONGEST_WORD, getattr(tokenizer, "max_characters_per_word", 1)))


# The next functions make the nodes of each kind of tokenizer.


def _wordpiece(tokenizer: Any) -> list[onnx.NodeProto]:
    vocabulary = tokenizer.vocabulary
    node = helper.make_node(
        "BertTokenizer",
        [_ONE],
        ["framed", "framed_segments", "framed_mask", "framed_offsets"],
        domain=DOMAIN,
        vocab_file="\n".join(vocabulary.tokens),
        do_lower_case=int(tokenizer.lowercase),
        strip_accents=int(tokenizer.strip_accents),
        tokenize_chinese_chars=int(tokenizer.split_cjk),
        unk_token=vocabulary.unknown,
        cls_token=vocabulary.cls,
        sep_token=vocabulary.separator,
        pad_token=vocabulary.pad,
        mask_token=vocabulary.mask,
    )
    return [node, helper.make_node("Slice", ["framed", "one", "minus_one"], [_PIECES])]


def _byte_pair(tokenizer: Any) -> list[onnx.NodeProto]:
    if tokenizer.pattern != "gpt2":
        raise InputError(_refusal(f"its tokenizer splits words by the pattern {tokenizer.pattern}"))
    if tokenizer.ignore_merges:
        raise InputError(_refusal("its tokenizer keeps words that are tokens (ignore_merges)"))
    if tokenizer.add_prefix_space:
        raise InputError(_refusal("its tokenizer puts a space before a text (add_prefix_space)"))
    ids = {token: index for index, token in enumerate(tokenizer.vocabulary.tokens)}
    node = helper.make_node(
        "GPT2Tokenizer",
        [_ONE],
        ["rows", "rows_mask"],
        domain=DOMAIN,
        vocab=json.dumps(ids, ensure_ascii=False),
        merges="\n".join(["#version: 0.2", *(" ".join(pair) for pair in tokenizer.merges)]),
        padding_length=-1,
    )
    return [node, helper.make_node("Squeeze", ["rows", "zero"], [_PIECES])]


def _sentencepiece(tokenizer: Any) -> list[onnx.NodeProto]:
    numbers = {"nbest_size": np.zeros(1, "int64"), "alpha": np.zeros(1, "float32")}
    numbers |= {name: np.zeros(1, bool) for name in ("add_bos", "add_eos", "reverse")}
    numbers["ids_of_pieces"] = tokenizer.ids_of_pieces.numpy().astype("int64")
    constants = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
        for name, array in numbers.items()
    ]
    node = helper.make_node(
        "SentencepieceTokenizer",
        [_ONE, "nbest_size", "alpha", "add_bos", "add_eos", "reverse"],
        ["numbers", "numbers_rows"],
        domain=DOMAIN,
        model=tokenizer.model_of_operations().to_bytes(),
    )
    return [*constants, node, helper.make_node("Gather", ["ids_of_pieces", "numbers"], [_PIECES])]


_KINDS: dict[str, Callable[[Any], list[onnx.NodeProto]]] = {
    "wordpiece": _wordpiece,
    "byte_pair": _byte_pair,
    "sentencepiece": _sentencepiece,
}


def _refusal(reason: str) -> str:
    return f"An ONNX file cannot take texts for this model: {reason}. {WITHOUT_TEXT}."


def check_text(model: Any) -> None:
    """Checks that an ONNX file can take texts for a model.

    Raises:
        InputError: if the task or the tokenizer does not allow it.
    """
    if task_of(model) not in ("classifier", "embedder"):
        kind = type(model).__name__
        raise InputError(_refusal(f"a {kind} predicts for tokens or for pairs of texts"))
    if getattr(model, "preprocessor", None) is None:
        raise InputError(_refusal("it has no preprocessor"))
    if not model.preprocessor.separator_at_end:
        raise InputError(_refusal("its texts have no separator at the end"))
    tokenizer = model.preprocessor.tokenizer
    if tokenizer.kind not in _KINDS:
        raise InputError(_refusal(f"onnxruntime-extensions has no {type(tokenizer).__name__}"))
    tokenizer.refuse_added_tokens("An ONNX file", WITHOUT_TEXT)
    _KINDS[tokenizer.kind](tokenizer)


# A loop converts the texts one by one, because the operators take a batch of two texts as a pair.


def reading(model: Any) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Makes nodes that convert `text` `[batch]` to ids, int32 `[batch, T]`, and their constants."""
    preprocessor = model.text_preprocessor
    vocabulary, length = preprocessor.vocabulary, preprocessor.sequence_length
    node = helper.make_node
    body = helper.make_graph(
        [
            node("Unsqueeze", ["index", "zero"], ["index_1"]),
            node("Gather", ["text", "index_1"], [_ONE]),
            *_KINDS[preprocessor.tokenizer.kind](preprocessor.tokenizer),
            node("Slice", [_PIECES, "zero", "room"], ["cut"]),
            node("Shape", ["cut"], ["number_of_pieces"]),
            node("Add", ["number_of_pieces", "two"], ["size"]),
            node("Sub", ["length", "size"], ["missing"]),
            node("ConstantOfShape", ["missing"], ["padding"], value=_tensor([vocabulary.pad_id])),
            node("Concat", ["cls", "cut", "separator", "padding"], ["row"], axis=0),
            node("Identity", ["going"], ["still_going"]),
        ],
        "text_to_row",
        [_value("index", TensorProto.INT64, []), _value("going", TensorProto.BOOL, [])],
        [
            _value("still_going", TensorProto.BOOL, []),
            _value("row", TensorProto.INT64, [length]),
            _value("size", TensorProto.INT64, [1]),
        ],
    )
    nodes = [
        node("Shape", ["text"], ["text_shape"]),
        node("Squeeze", ["text_shape"], ["number_of_texts"]),
        node("Loop", ["number_of_texts", "always"], ["rows_64", "sizes"], body=body),
        # A batch is as long as its longest text. A batch without texts has the length 2.
        node("Reshape", ["sizes", "minus_one"], ["sizes_flat"]),
        node("Concat", ["sizes_flat", "two"], ["sizes_or_two"], axis=0),
        node("ReduceMax", ["sizes_or_two"], ["longest"], keepdims=1),
        node("Slice", ["rows_64", "zero", "longest", "one"], ["ids_64"]),
        node("Cast", ["ids_64"], ["token_ids"], to=TensorProto.INT32),
        node("Squeeze", ["longest"], ["last"]),
        node("Range", ["first", "last", "step"], ["positions"]),
        node("Less", ["positions", "sizes"], ["is_token"]),
        node("Cast", ["is_token"], ["padding_mask"], to=TensorProto.INT32),
        node("Sub", ["token_ids", "token_ids"], ["segment_ids"]),
    ]
    constants: dict[str, Any] = {
        "zero": [0],
        "one": [1],
        "two": [2],
        "minus_one": [-1],
        "room": [length - 2],
        "length": [length],
        "cls": [vocabulary.cls_id],
        "separator": [vocabulary.separator_id],
        "first": 0,
        "step": 1,
        "always": True,
    }
    return nodes, [_tensor(value, name) for name, value in constants.items()]


def _best_label(model: Any) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Makes nodes that give the names of a classifier's labels, and the best label's score."""
    if task_of(model) != "classifier" or model.problem_type not in _LABELS:
        return [], []
    node = helper.make_node
    nodes = [node("Shape", ["scores"], ["scores_shape"])]
    nodes += [node("Expand", ["label_names", "scores_shape"], ["labels"])]
    if model.problem_type == "single_label":
        nodes += [node("TopK", ["scores", "one"], ["highest", "where"], axis=-1)]
        nodes += [node("Squeeze", ["highest", "minus_one"], ["score"])]
        nodes += [node("Squeeze", ["where", "minus_one"], ["best"])]
        nodes += [node("Gather", ["label_names", "best"], ["label"])]
    names = helper.make_tensor(
        "label_names",
        TensorProto.STRING,
        [len(model.labels)],
        [label.encode() for label in model.labels],
    )
    return nodes, [names]


def _value(name: str, kind: int, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _tensor(value: int | bool | Iterable[int], name: str = "") -> onnx.TensorProto:
    kind = bool if isinstance(value, bool) else "int64"
    return numpy_helper.from_array(np.array(value, kind), name)
