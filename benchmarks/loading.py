"""Compare time and peak memory of loading BERT-large with reading the same file by NumPy.

    python benchmarks/loading.py [--preset bert_large] [--rounds 3]

Writes random weights in Hugging Face's format to a temporary directory (1.34 GB). Fresh processes
then read them, in turns, with `safetensors.numpy.load_file` and with `keras_bert.load`. A process
that loads a tiny model shows how much memory the library itself needs.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TINY = {"vocabulary_size": 9, "hidden_size": 4, "num_layers": 1, "num_heads": 1}


def write(directory, config):
    """Writes a model with random weights in Hugging Face's format."""
    import keras_bert as kb

    kb.save(kb.Encoder(config), directory, format="huggingface")


def peak():
    """Returns the peak of this process's memory until now, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(reader, directory):
    """Measures the seconds of reading and the peak memory of this process."""
    import numpy as np

    path = Path(directory)
    if reader == "numpy":
        from safetensors.numpy import load_file

        start = time.perf_counter()
        tensors = load_file(path / "model.safetensors")
        seconds, size = time.perf_counter() - start, sum(x.nbytes for x in tensors.values())
    else:
        import keras_bert as kb

        kb.load(path.parent / "tiny")  # imports, first operations
        start = time.perf_counter()
        model = kb.load(path)
        seconds = time.perf_counter() - start
        size = sum(4 * int(np.prod(v.shape)) for v in model.weights)
    return {"seconds": seconds, "peak": peak(), "weights": size / 2**20}


def in_fresh_process(reader, directory):
    command = [sys.executable, __file__, "--worker", reader, str(directory)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", default="bert_large")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(measure(*arguments.worker)))
        return
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import sys; sys.path.insert(0, 'benchmarks'); import keras_bert as kb, loading;"
            f"loading.write({folder!r} + '/tiny', kb.EncoderConfig(**loading.TINY,"
            "intermediate_size=4));"
            f"loading.write({folder!r} + '/model', kb.EncoderConfig.preset({arguments.preset!r}))"
        )
        subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent)
        base = in_fresh_process("keras_bert", Path(folder, "tiny"))
        rounds = [
            {
                name: in_fresh_process(name, Path(folder, "model"))
                for name in ("numpy", "keras_bert")
            }
            for _ in range(arguments.rounds)
        ]
    weights = rounds[0]["keras_bert"]["weights"]
    seconds = {n: [r[n]["seconds"] for r in rounds] for n in rounds[0]}
    above = max(r["keras_bert"]["peak"] for r in rounds) - base["peak"]
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    print(f"{arguments.preset}: {weights:.0f} MB of weights")
    for name, values in seconds.items():
        print(f"{name:10}  seconds {', '.join(f'{x:.2f}' for x in values)}")
    print(f"time    {medians['keras_bert'] / medians['numpy']:.2f} x reading (at most 3)")
    print(f"memory  {above:.0f} MB above the library's {base['peak']:.0f} MB: ", end="")
    print(f"{above / weights:.2f} x the weights (at most 1.3)")


if __name__ == "__main__":
    main()
