"""Loads a SavedModel as TensorFlow Serving does, through the C API alone.

A script: JSON on standard input (directory, names of the tensors, texts), scores on standard
output. It must not import TensorFlow, whose Python package would load the model in its own way.
"""

import ctypes
import importlib.metadata
import json
import sys

STRING, STRING_SIZE = 7, 24  # TF_STRING and sizeof(TF_TString)
Pointer = ctypes.c_void_p


class Output(ctypes.Structure):
    _fields_ = (("operation", Pointer), ("index", ctypes.c_int))


def shared_objects(distribution, suffixes):
    """The files of an installed distribution that end so."""
    files = importlib.metadata.files(distribution)
    return sorted(str(file.locate()) for file in files if str(file).endswith(suffixes))


def load_library():
    for end in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2"):
        (path,) = shared_objects("tensorflow", end)
        library = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    return library


def main():
    request = json.load(sys.stdin)
    library = load_library()

    def function(name, result, *arguments):
        found = getattr(library, name)
        found.restype, found.argtypes = result, arguments
        return found

    code = function("TF_GetCode", ctypes.c_int, Pointer)
    message = function("TF_Message", ctypes.c_char_p, Pointer)
    status = function("TF_NewStatus", Pointer)()

    def check(what):
        if code(status):
            sys.exit(f"{what}: {message(status).decode()}")

    load_operators = function("TF_LoadLibrary", Pointer, ctypes.c_char_p, Pointer)
    for path in shared_objects("tensorflow-text", ".so"):
        if "/python/ops/" in path:
            load_operators(path.encode(), status)
            check(path)

    graph = function("TF_NewGraph", Pointer)()
    tags = (ctypes.c_char_p * 1)(b"serve")
    session = function(
        "TF_LoadSessionFromSavedModel",
        *(Pointer, Pointer, Pointer, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)),
        *(ctypes.c_int, Pointer, Pointer, Pointer),
    )(
        function("TF_NewSessionOptions", Pointer)(),
        None,
        request["directory"].encode(),
        tags,
        1,
        graph,
        None,
        status,
    )
    check("load")

    operation = function("TF_GraphOperationByName", Pointer, Pointer, ctypes.c_char_p)

    def output(tensor_name):
        name, index = tensor_name.split(":")
        return (Output * 1)(Output(operation(graph, name.encode()), int(index)))

    data = function("TF_TensorData", Pointer, Pointer)
    texts = [text.encode() for text in request["texts"]]
    shape = (ctypes.c_int64 * 1)(len(texts))
    text = function(
        "TF_AllocateTensor",
        *(Pointer, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_int, ctypes.c_size_t),
    )(STRING, shape, 1, STRING_SIZE * len(texts))
    initialise = function("TF_StringInit", None, Pointer)
    copy = function("TF_StringCopy", None, Pointer, ctypes.c_char_p, ctypes.c_size_t)
    for index, value in enumerate(texts):
        place = data(text) + STRING_SIZE * index
        initialise(place)
        copy(place, value, len(value))

    result = (Pointer * 1)()
    outputs, pointers = ctypes.POINTER(Output), ctypes.POINTER(Pointer)
    function(
        "TF_SessionRun",
        *(None, Pointer, Pointer, outputs, pointers, ctypes.c_int),
        *(outputs, pointers, ctypes.c_int, Pointer, ctypes.c_int, Pointer, Pointer),
    )(
        session,
        None,
        output(request["text"]),
        (Pointer * 1)(text),
        1,
        output(request["scores"]),
        result,
        1,
        None,
        0,
        None,
        status,
    )
    check("run")
    width = function("TF_Dim", ctypes.c_int64, Pointer, ctypes.c_int)(result[0], 1)
    scores = ctypes.cast(data(result[0]), ctypes.POINTER(ctypes.c_float))
    assert "tensorflow" not in sys.modules
    rows = [[scores[row * width + i] for i in range(width)] for row in range(len(texts))]
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
