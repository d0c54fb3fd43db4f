"""Adds the metadata that MediaPipe and the Task Library read in a TFLite file.

The description of the tensors is a flatbuffer (`metadata_schema.fbs` of MediaPipe) inside the
model's flatbuffer. Labels and vocabulary are in a ZIP archive at the end of the file, so that
`unzip` can read them.
"""

import io
import logging
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flatbuffers
import numpy as np

from keras_bert.errors import InputError
from keras_bert.export.artifact_checks import require
from keras_bert.tasks.registry import class_names, task_of

logger = logging.getLogger(__name__)

LABELS, VOCABULARY = "labels.txt", "vocab.txt"
_MODEL_FORMAT, _FORMAT, _FORMAT_NAME = b"TFL3", b"M001", "TFLITE_METADATA"
_INPUTS = {"token_ids": "ids", "segment_ids": "segment_ids", "padding_mask": "mask"}
_SPECIAL = {"cls": "[CLS]", "separator": "[SEP]", "unknown": "[UNK]"}

# The tokenizers of MediaPipe and the Task Library lowercase only ASCII, split only at ASCII white
# space, and keep accents and control characters. Each ideograph is a word. A word of more than 100
# bytes is unknown.
_AFFECTED: dict[str, Callable[[Any], bool]] = {
    "capital letters": lambda tokenizer: not tokenizer.lowercase,
    "letters beyond ASCII": lambda tokenizer: tokenizer.lowercase,
    "accents": lambda tokenizer: tokenizer.strip_accents,
    "ideographs": lambda tokenizer: not tokenizer.split_cjk,
    "control characters or white space beyond ASCII": lambda tokenizer: True,
    "long words (of more than 100 bytes)": lambda tokenizer: True,
}
"""Kinds of texts. The function tells whether the libraries read them differently from a model.

Its argument is the model's WordPiece tokenizer.
"""


class Reader(NamedTuple):
    """A class of a phone library that runs a task.

    Args:
        name: name of the class.
        outputs: for each name of a model's output, the output's name in the class.
        length: number of tokens that the class always passes to the model, or None if the exported
            file sets the number.
    """

    name: str
    outputs: Mapping[str, str]
    length: int | None = None

    def length_of(self, model: Any, wanted: int | None) -> int:
        """Returns the number of tokens for a model's file.

        Raises:
            InputError: if the class or the model does not allow this number.
        """
        if self.length is not None and wanted not in (None, self.length):
            raise InputError(
                f"sequence_length is {wanted}, but {self.name} gives {self.length} tokens."
            )
        length = self.length or wanted or model.preprocessor.sequence_length
        if length > model.config.max_positions:
            raise InputError(
                f"{self.name} gives {length} tokens, but this model takes at most "
                f"{model.config.max_positions}."
            )
        return length


READERS: dict[str, Reader] = {
    "classifier": Reader("BertNLClassifier", {"scores": "probability"}),
    "span_classifier": Reader(
        "BertQuestionAnswerer",
        {"start_logits": "start_logits", "end_logits": "end_logits"},
        length=384,
    ),
    "embedder": Reader("BertTextEmbedder", {"embedding": "embedding"}),
}


def reader_of(model: Any) -> Reader:
    """Returns the class of a phone library that runs a model.

    Raises:
        InputError: if no class can use the task, the tokenizer, its special tokens or the labels.
    """
    reader = READERS.get(task_of(model) or "")
    if reader is None:
        raise InputError(
            f"Neither MediaPipe nor the Task Library runs a {type(model).__name__}; leave out "
            f"`metadata`, which is for {class_names(READERS)}."
        )
    tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    if tokenizer is None or tokenizer.kind != "wordpiece":
        what = "no preprocessor" if tokenizer is None else f"a {type(tokenizer).__name__} tokenizer"
        raise InputError(
            f"The model has {what}, but MediaPipe and the Task Library know only WordPiece; leave "
            "out `metadata`."
        )
    tokenizer.refuse_added_tokens("MediaPipe and the Task Library", "Leave out `metadata`")
    special = tokenizer.vocabulary.special_tokens
    for role, token in _SPECIAL.items():
        if special[role] != token:
            raise InputError(
                f"The vocabulary's {role} token is {special[role]!r}, but MediaPipe and the Task "
                f"Library always use {token!r}; leave out `metadata`."
            )
    broken = [label for label in getattr(model, "labels", ()) if len(label.splitlines()) > 1]
    if broken:
        raise InputError(
            f"The label {broken[0]!r} has a line break, but the metadata has one label in each "
            "line; rename the label or leave out `metadata`."
        )
    return reader


def with_metadata(content: bytes, model: Any, reader: Reader) -> bytes:
    """Adds the description, the labels and the vocabulary to the content of a file.

    Logs a warning that names the texts that the reader reads differently.
    """
    tokenizer = model.preprocessor.tokenizer
    logger.warning(
        "MediaPipe and the Task Library read some texts differently from the model's tokenizer, so "
        "their answers may differ: texts with %s.",
        ", ".join(kind for kind, is_affected in _AFFECTED.items() if is_affected(tokenizer)),
    )
    schema = require("ai_edge_litert.schema_py_generated", "tflite")
    tree = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
    inputs, outputs = _tensors(tree)
    labels = list(model.labels) if task_of(model) == "classifier" else []
    files = {VOCABULARY: list(model.preprocessor.vocabulary.tokens)}
    if labels:
        files[LABELS] = labels
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(_description(reader, inputs, outputs, bool(labels)), np.uint8)
    entry.name, entry.buffer = _FORMAT_NAME, len(tree.buffers)
    tree.buffers.append(buffer)
    tree.metadata = [*(tree.metadata or []), entry]
    builder = flatbuffers.Builder(len(content) + 4096)
    builder.Finish(tree.Pack(builder), _MODEL_FORMAT)
    return _with_files(bytes(builder.Output()), files)


def _tensors(tree: Any) -> tuple[list[str], list[str]]:
    """Returns the signature's names of inputs and outputs, in the order of the model's tensors."""
    (signature,), graph = tree.signatureDefs, tree.subgraphs[0]

    def names(tensors: Any, order: Any) -> list[str]:
        by_index = {tensor.tensorIndex: tensor.name.decode() for tensor in tensors}
        return [by_index[index] for index in order]

    return names(signature.inputs, graph.inputs), names(signature.outputs, graph.outputs)


def _with_files(content: bytes, files: Mapping[str, list[str]]) -> bytes:
    """Appends a ZIP archive of text files. `files` has the lines of each file, by its name."""
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a") as archive:
        for name, lines in files.items():
            # A fixed date, so that the same model gives the same file.
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            archive.writestr(info, "".join(f"{line}\n" for line in lines).encode())
    return file.getvalue()


# Tables of the schema: the number of each field. A union has two fields, its kind and its value.
_SCHEMA = {
    "AssociatedFile": {"name": 0, "description": 1, "type": 2},
    "Content": {"kind": 0, "properties": 1},
    "TensorMetadata": {"name": 0, "description": 1, "content": 3, "files": 6},
    "BertTokenizerOptions": {"files": 0},
    "ProcessUnit": {"kind": 0, "options": 1},
    "SubGraphMetadata": {"inputs": 2, "outputs": 3, "input_processing": 5},
    "ModelMetadata": {"name": 0, "description": 1, "subgraphs": 3, "parser": 7},
    "FeatureProperties": {},
}
_AXIS_LABELS, _VOCABULARY_FILE = 2, 5  # AssociatedFileType
_FEATURE = 1  # ContentProperties
_BERT_TOKENIZER = 4  # ProcessUnitOptions
_OLDEST_PARSER = "1.1.0"  # first version that knows BertTokenizerOptions


class _Table(dict):
    """One of the schema's tables: fields by name."""

    def __init__(self, kind: str, /, **fields: Any) -> None:
        super().__init__(fields)
        self.slots = _SCHEMA[kind]


def _description(reader: Reader, inputs: list[str], outputs: list[str], has_labels: bool) -> bytes:
    """Makes the description of a model as a flatbuffer."""

    def file(name: str, kind: int) -> _Table:
        return _Table("AssociatedFile", name=name, type=kind)

    def tensor(name: str, files: list[_Table]) -> _Table:
        content = _Table("Content", kind=_FEATURE, properties=_Table("FeatureProperties"))
        return _Table("TensorMetadata", name=name, content=content, files=files)

    tokenizer = _Table("BertTokenizerOptions", files=[file(VOCABULARY, _VOCABULARY_FILE)])
    labels = [file(LABELS, _AXIS_LABELS)] if has_labels else []
    graph = _Table(
        "SubGraphMetadata",
        inputs=[tensor(_INPUTS[name], []) for name in inputs],
        outputs=[tensor(reader.outputs[name], labels) for name in outputs],
        input_processing=[_Table("ProcessUnit", kind=_BERT_TOKENIZER, options=tokenizer)],
    )
    root = _Table("ModelMetadata", name=reader.name, subgraphs=[graph], parser=_OLDEST_PARSER)
    builder = flatbuffers.Builder(1024)
    builder.Finish(_write(builder, root), _FORMAT)
    return bytes(builder.Output())


def _write(builder: flatbuffers.Builder, value: Any) -> int:
    """Writes a string, a list of tables, or a table with its contents; returns the offset."""
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, list):
        tables = [_write(builder, table) for table in value]
        builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            builder.PrependUOffsetTRelative(table)
        return builder.EndVector()
    within = {
        name: _write(builder, field)
        for name, field in value.items()
        if not isinstance(field, int) and field != []
    }
    builder.StartObject(max(value.slots.values(), default=-1) + 1)
    for name, field in value.items():
        if isinstance(field, int):
            builder.PrependInt8Slot(value.slots[name], field, 0)
        elif name in within:
            builder.PrependUOffsetTRelativeSlot(value.slots[name], within[name], 0)
    return builder.EndObject()
