"""Registry of the export formats.

A format is an entry of `FORMATS` and a private package with two modules:

- `convert` has a function with the format's name, which writes an artifact and returns its path. It
  also has `check_arguments`, which takes the same arguments without the path. If an argument is
  wrong, `check_arguments` raises an `InputError`. If an artifact is a directory, `EARLIER` tells
  which of its files may be replaced.
- `runtime` runs an artifact. It has `PACKAGE`, the name of the runtime's package, and `prepare`,
  which `worker.py` calls.

`keras_bert.export`, the command line, `verify`, `report` and the accuracy check read this registry.
"""

import dataclasses
import importlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_bert.atomic import Owned, finish_interrupted, remove_scratch
from keras_bert.errors import InputError

INPUT_NAMES: dict[str, dict[str, str]] = {
    "keras_bert": {},
    "huggingface": {
        "token_ids": "input_ids",
        "segment_ids": "token_type_ids",
        "padding_mask": "attention_mask",
    },
    "tfhub": {
        "token_ids": "input_word_ids",
        "segment_ids": "input_type_ids",
        "padding_mask": "input_mask",
    },
}
"""Names that other libraries give to the encoder's inputs."""

DTYPES = ("float32", "bfloat16")
"""Precisions of SavedModels."""


@dataclasses.dataclass(frozen=True)
class Option:
    """An argument of a format's function that is an option on the command line.

    Args:
        name: name of the argument. The command line writes `keep_float` as `--keep-float`.
        help: help text.
        type: `bool` for a flag, `int`, `str`, `list` if the option may be repeated, or `Path` for
            a file of texts.
        metavar: the value's name in the help text.
        minimum: lowest value.
        choices: allowed values; empty if any value is allowed.
        quantizations: quantizations that use the option; empty if all quantizations use it.
        required: whether these quantizations need the option.
        reason: why only these quantizations use the option, for messages.
        for_texts: whether the option also changes how the model reads texts. Such an option is
            allowed with every format.
    """

    name: str
    help: str
    type: Any
    metavar: str | None = None
    minimum: int | None = None
    choices: tuple[str, ...] = ()
    quantizations: tuple[str, ...] = ()
    required: bool = False
    reason: str = ""
    for_texts: bool = False

    @property
    def flag(self) -> str:
        """Name of the option on the command line."""
        return f"--{self.name.replace('_', '-')}"


@dataclasses.dataclass(frozen=True)
class Format:
    """A format that models are exported to.

    Args:
        name: name of the function in `keras_bert.export` and, after "_", of the private package.
        options: arguments of the function that are options on the command line, without `quantize`.
        quantizations: quantizations of weights that the format has; "none" comes first.
        ending: ending of the artifact's file name; "" if an artifact is a directory.
        marker: name of a file that every artifact has, if an artifact is a directory.
        is_content: function that tells whether the bytes of a file are an artifact. The command
            line replaces only such files.
    """

    name: str
    options: tuple[Option, ...]
    quantizations: tuple[str, ...] = ("none",)
    ending: str = ""
    marker: str = ""
    is_content: Callable[[bytes], bool] = bool

    @property
    def runtime(self) -> Path:
        """Path of the module that `worker.py` loads to run artifacts."""
        return Path(__file__).parent / f"_{self.name}" / "runtime.py"

    def write(self, model: Any, path: str | os.PathLike, **arguments: Any) -> Path:
        """Writes an artifact with the format's function and returns the artifact's path."""
        return getattr(self._convert, self.name)(model, path, **arguments)

    def check_arguments(self, model: Any, **arguments: Any) -> None:
        """Checks the arguments of `write` before anything is written.

        Raises:
            InputError: if the model cannot be exported with these arguments.
        """
        self._convert.check_arguments(model, **arguments)

    @property
    def earlier(self) -> Owned | None:
        """Function that tells which files of an earlier artifact may be replaced; see `replacing`.

        None if an artifact is a single file.
        """
        return getattr(self._convert, "EARLIER", None)

    @property
    def _convert(self) -> Any:
        return importlib.import_module(f"{__package__}._{self.name}.convert")

    def is_artifact(self, path: Path) -> bool:
        """Whether there is an artifact at a path.

        The ending of the name identifies a file, the marker file a directory.
        """
        return path.name.endswith(self.ending) and (path / self.marker).is_file()

    def quantizes(self, quantize: str) -> bool:
        """Whether the format has this quantization, and it is not "none"."""
        return quantize != "none" and quantize in self.quantizations

    def has(self, name: str) -> bool:
        """Whether the format has an option of this name."""
        return any(option.name == name for option in self.options)

    def uses(self, name: str, quantize: str) -> bool:
        """Whether the format has an option and uses it with this quantization."""
        uses = {option.name: option.quantizations for option in self.options}
        return name in uses and (not uses[name] or quantize in uses[name])

    def arguments(self, quantize: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Selects the arguments of the format's function from the options of several formats."""
        stored = {"quantize": quantize} if self.quantizes(quantize) else {}
        return stored | {name: given[name] for name in given if self.uses(name, quantize)}

    def file_name(self, arguments: Mapping[str, Any]) -> str:
        """Returns an artifact's name in a directory of artifacts, such as `model-int8.tflite`."""
        if not self.ending:
            return self.name + "-bfloat16" * (arguments.get("dtype") == "bfloat16")
        stored = arguments.get("quantize", "none")
        parts = "model", "text" * bool(arguments.get("text")), stored * self.quantizes(stored)
        return "-".join(filter(None, parts)) + self.ending


_TEXT = Option("text", "TFLite and ONNX files take texts instead of ids.", bool)
_KEEP_FLOAT = Option(
    "keep_float",
    "Layers that stay float32, given by a part of their names; repeat the option for several.",
    list,
    "PATTERN",
    reason="TFLite's converter lets layers be chosen for int8",
)

SAVED_MODEL = Format(
    name="saved_model",
    marker="saved_model.pb",
    options=(
        Option("version", "SavedModel: version number for TensorFlow Serving.", int, "NUMBER", 0),
        Option(
            "names",
            "SavedModel: library whose input names to use.",
            str,
            choices=tuple(INPUT_NAMES),
        ),
        Option("top_k", "SavedModel: number of tokens for each mask.", int, minimum=1),
        Option("logits", "SavedModel: give a classifier's logits for texts, too.", bool),
        Option(
            "dtype",
            "SavedModel: precision of weights and computations.  [default: float32]",
            str,
            choices=DTYPES,
        ),
    ),
)
TFLITE = Format(
    name="tflite",
    ending=".tflite",
    is_content=lambda content: content[4:8] == b"TFL3",  # identifier of its flatbuffers
    quantizations=("none", "float16", "dynamic", "int8"),
    options=(
        Option(
            "representative",
            "int8: file of some hundred typical texts, one in each line, or pairs with a tab.",
            Path,
            "FILE",
            quantizations=("int8",),
            required=True,
            reason="ranges are measured on typical texts",
        ),
        dataclasses.replace(_KEEP_FLOAT, quantizations=("int8",)),
        _TEXT,
        Option(
            "sequence_length",
            "Number of tokens of all texts. A TFLite file takes only this number.",
            int,
            "TOKENS",
            3,
            for_texts=True,
        ),
        Option("batch_size", "TFLite: fixed number of texts that a file takes.", int, "TEXTS", 1),
        Option("metadata", "TFLite: add labels and vocabulary for MediaPipe.", bool),
    ),
)
ONNX = Format(
    name="onnx",
    ending=".onnx",
    # An ONNX file is a protobuf that begins with its format version and its producer.
    is_content=lambda content: content[:1] == b"\x08" and content[2:3] == b"\x12",
    quantizations=("none", "float16", "dynamic"),
    options=(
        dataclasses.replace(_KEEP_FLOAT, quantizations=("float16", "dynamic")),
        _TEXT,
        Option("opset", "ONNX: version of the operators.", int),
    ),
)

FORMATS: dict[str, Format] = {format.name: format for format in (SAVED_MODEL, TFLITE, ONNX)}
QUANTIZATIONS = {
    "none": "float32",
    "float16": "half precision",
    "dynamic": "weights in int8",
    "int8": "weights and activations in int8",
}
"""Quantizations of weights, with descriptions."""

OPTIONS = {option.name: option for format in FORMATS.values() for option in format.options}
"""Options of the command line by name. Formats may share an option, but differ in quantizations."""


def rounds(arguments: Mapping[str, Any]) -> bool:
    """Returns whether an artifact with these arguments has other weights than the model."""
    return arguments.get("quantize", "none") != "none" or arguments.get("dtype") == "bfloat16"


def versioned(directory: str | os.PathLike, version: int | None) -> Path:
    """Returns the path of a SavedModel: the directory, or its subdirectory for the version."""
    return Path(directory) if version is None else Path(directory) / str(version)


def formats_named(names: Iterable[str]) -> list[Format]:
    """Returns the formats with these names, each once.

    Raises:
        InputError: if there is no such format.
    """
    for name in names:
        if name not in FORMATS:
            raise InputError(
                f"There is no format {name!r}; give one or more of {', '.join(FORMATS)} with "
                "commas between them."
            )
    return [FORMATS[name] for name in dict.fromkeys(names)]


def quantizations_help() -> str:
    """Returns all quantizations with descriptions and formats, in one line."""
    return "; ".join(
        f"{name} ({meaning}) in {_listed(f for f in FORMATS.values() if f.quantizes(name))}"
        for name, meaning in QUANTIZATIONS.items()
        if name != "none"
    )


def format_of(path: str | os.PathLike) -> Format:
    """Returns the format of an artifact.

    Raises:
        InputError: if there is no artifact at the path.
    """
    finish_interrupted(path)
    for format in FORMATS.values():
        if format.is_artifact(Path(path)):
            return format
    markers = " or ".join(filter(None, (format.marker for format in FORMATS.values())))
    endings = " or ".join(filter(None, (format.ending for format in FORMATS.values())))
    raise InputError(
        f"{path} is not an artifact: expected a directory with {markers}, or a file that ends in "
        f"{endings}."
    )


def check_options(chosen: Collection[Format], quantize: str, given: Mapping[str, Any]) -> None:
    """Checks that the options of the command line can be used together.

    Args:
        chosen: the formats to write.
        quantize: how files store weights.
        given: values of the options that were given, by name.

    Raises:
        InputError: if no chosen format has a given option, the option is for another quantization,
            or an option that the quantization needs is missing.
    """
    every = FORMATS.values()
    having = {f"--quantize {quantize}": [f for f in every if quantize in f.quantizations]}
    having |= {
        OPTIONS[name].flag: [format for format in every if format.has(name)]
        for name in given
        if not OPTIONS[name].for_texts
    }
    for flag, formats in having.items():
        if not set(formats) & set(chosen):
            raise InputError(f"{flag} is for {_listed(formats)}, which --format does not name.")
    for name, option in OPTIONS.items():
        if option.required:
            if (quantize in option.quantizations) != (name in given):
                raise InputError(
                    f"--quantize {' or '.join(option.quantizations)} and {option.flag} "
                    f"{option.metavar} belong together: {option.reason}."
                )
        elif name in given and option.quantizations:
            if quantize == "none":
                raise InputError(f"{option.flag} is for quantized files; add --quantize.")
            quantized = [f for f in every if f.has(name) and f.quantizes(quantize)]
            using = [format for format in quantized if format.uses(name, quantize)]
            if (set(quantized) - set(using)) & set(chosen):
                raise InputError(
                    f"{option.flag} with --quantize {quantize} is only for {_listed(using)}: "
                    f"{option.reason}."
                )


def check_directory(directory: Path, pages: Iterable[str]) -> None:
    """Checks that a directory holds only artifacts.

    Args:
        directory: directory to write artifacts to, which may be missing.
        pages: names of other files that the directory may hold.

    Raises:
        InputError: if the path is a file, or another file is in the directory.
    """
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file; name a directory for the artifacts.")
    known = {
        format.file_name({"quantize": quantize, "text": text, "dtype": dtype})
        for format in FORMATS.values()
        for quantize in format.quantizations
        for text in (False, True)
        for dtype in DTYPES
    }
    remove_scratch(directory)
    others = sorted({path.name for path in directory.glob("*")} - known - set(pages))
    if others:
        raise InputError(
            f"{directory} is not empty and holds more than artifacts, such as {others[0]!r}; "
            "choose another directory."
        )


def _listed(formats: Iterable[Format]) -> str:
    return " and ".join(format.name for format in formats)
