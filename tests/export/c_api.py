"""Loads a SavedModel as TensorFlow Serving does, through the C API alone.

A script: JSON on standard input (directory, names of the tensors, texts), scores on standard
output. With `callers` and `requests` it then asks so often, from so many threads at once, always
for the texts in another order, and tells the largest difference to the first scores and the
memory that it holds, in kB, after a fifth of the requests and at the end. With `cases`, each the
tensors to feed as [name, type, shape, values] in whatever type and shape, it tells the scores or
the `error` of each. With `seconds` and `batches`, the reply has `milliseconds`: for each batch
size, the times of calls that are repeated for `seconds`. It also has the memory in kB after the
calls. `threads` limits its threads. Texts may have lone surrogates for bytes that are no UTF-8. It
must not import TensorFlow, whose Python package would load the model in its own way.
"""

import array
import concurrent.futures
import ctypes
import importlib.metadata
import json
import sys
import time
from pathlib import Path

STRING, STRING_SIZE = 7, 24  # TF_STRING and sizeof(TF_TString)
NUMBERS = {"int32": (3, "i"), "int64": (9, "q"), "float32": (1, "f")}  # TF_DataType, array's code
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

    options = function("TF_NewSessionOptions", Pointer)()
    if "threads" in request:  # a ConfigProto: fields 2 and 5, the threads in and between operators
        settings = bytes([0x10, request["threads"], 0x28, request["threads"]])
        configure = function("TF_SetConfig", None, Pointer, Pointer, ctypes.c_size_t, Pointer)
        configure(options, settings, len(settings), status)
        check("threads")
    graph = function("TF_NewGraph", Pointer)()
    tags = (ctypes.c_char_p * 1)(b"serve")
    session = function(
        "TF_LoadSessionFromSavedModel",
        *(Pointer, Pointer, Pointer, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)),
        *(ctypes.c_int, Pointer, Pointer, Pointer),
    )(
        options,
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
    allocate = function(
        "TF_AllocateTensor",
        *(Pointer, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_int, ctypes.c_size_t),
    )
    initialize = function("TF_StringInit", None, Pointer)
    copy = function("TF_StringCopy", None, Pointer, ctypes.c_char_p, ctypes.c_size_t)
    free_string = function("TF_StringDealloc", None, Pointer)
    free = function("TF_DeleteTensor", None, Pointer)
    new_status = function("TF_NewStatus", Pointer)
    width_of = function("TF_Dim", ctypes.c_int64, Pointer, ctypes.c_int)
    outputs, pointers = ctypes.POINTER(Output), ctypes.POINTER(Pointer)
    run = function(
        "TF_SessionRun",
        *(None, Pointer, Pointer, outputs, pointers, ctypes.c_int),
        *(outputs, pointers, ctypes.c_int, Pointer, ctypes.c_int, Pointer, Pointer),
    )
    source, target = output(request["text"]), output(request["scores"])

    def strings(texts, shape):
        """A tensor, and the places in it that have to be freed."""
        lengths = (ctypes.c_int64 * len(shape))(*shape)
        tensor = allocate(STRING, lengths, len(shape), STRING_SIZE * len(texts))
        places = [data(tensor) + STRING_SIZE * index for index in range(len(texts))]
        for place, value in zip(places, texts, strict=True):
            initialize(place)
            copy(place, value, len(value))
        return tensor, places

    def numbers(kind, values, shape):
        code, letter = NUMBERS[kind]
        content = array.array(letter, values).tobytes()
        lengths = (ctypes.c_int64 * len(shape))(*shape)
        tensor = allocate(code, lengths, len(shape), len(content))
        ctypes.memmove(data(tensor), content, len(content))
        return tensor, []

    def scores(sources, tensors, target, status):
        """Rows of the scores; the tensors are freed."""
        result = (Pointer * 1)()
        places = (Output * len(sources))(*(place[0] for place in sources))
        inputs = (Pointer * len(sources))(*(tensor for tensor, _ in tensors))
        count = len(sources)
        run(session, None, places, inputs, count, target, result, 1, None, 0, None, status)
        for tensor, texts in tensors:
            for place in texts:
                free_string(place)
            free(tensor)
        if code(status):
            raise RuntimeError(message(status).decode())
        height, width = width_of(result[0], 0), width_of(result[0], 1)
        values = ctypes.cast(data(result[0]), ctypes.POINTER(ctypes.c_float))
        rows = [[values[row * width + i] for i in range(width)] for row in range(height)]
        free(result[0])
        return rows

    def scores_of(texts, status=status):
        return scores([source], [strings(texts, [len(texts)])], target, status)

    def answer(case):
        """Returns the answer to a request of tensors of any type."""
        sources, tensors = [], []
        for name, kind, shape, values in case["inputs"]:
            sources.append(output(name))
            if kind == "string":
                values = [value.encode("utf-8", "surrogateescape") for value in values]
                tensors.append(strings(values, shape))
            else:
                tensors.append(numbers(kind, values, shape))
        try:
            return {"scores": scores(sources, tensors, output(case["scores"]), new_status())}
        except RuntimeError as error:
            return {"error": str(error)}

    texts = [text.encode() for text in request["texts"]]
    reply = {"scores": scores_of(texts)}

    def difference(number):
        """Returns the largest difference of scores, if another text comes first."""
        order = [(number + index) % len(texts) for index in range(1 + number % len(texts))]
        found = scores_of([texts[index] for index in order], new_status())
        expected = [reply["scores"][index] for index in order]
        rows = zip(expected, found, strict=True)
        return max(abs(a - b) for row in rows for a, b in zip(*row, strict=True))

    def timed(texts):
        """Returns the milliseconds of each of the repeated calls, at least four."""
        times, end = [], time.perf_counter() + request["seconds"]
        while len(times) < 4 or time.perf_counter() < end:
            began = time.perf_counter()
            scores_of(texts)
            times.append(1000 * (time.perf_counter() - began))
        return times

    if "requests" in request:
        first = request["requests"] // 5
        parts = range(first), range(first, request["requests"])
        with concurrent.futures.ThreadPoolExecutor(request["callers"]) as pool:
            found = [(max(pool.map(difference, part)), resident()) for part in parts]
        reply["difference"] = max(found)[0]
        reply["resident"] = [memory for _, memory in found]
    if "seconds" in request:
        reply["milliseconds"] = [timed(texts[:size]) for size in request["batches"]]
        reply["resident"] = resident()
    if "cases" in request:
        reply["answers"] = [answer(case) for case in request["cases"]]
    assert "tensorflow" not in sys.modules
    json.dump(reply, sys.stdout)


def resident():
    """Memory of this process in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
