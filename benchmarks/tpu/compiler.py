"""Compile an XLA module with libtpu for one chip of a TPU v5e, on a machine without a TPU.

`python -m benchmarks.tpu.compiler FILE LOOPS` prints the result as JSON.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# These variables name the accelerator, so that libtpu does not search for it.
os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_ACCELERATOR_TYPE="v5litepod-4",
    TPU_WORKER_HOSTNAMES="localhost",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
    JAX_OPTIMIZATION_LEVEL="O1",  # compiles in a fraction of the time
)

import numpy as np
from jax._src import compiler  # private, but the versions are pinned
from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jax.experimental import topologies
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

TOPOLOGY = "v5e:2x2"


def compile_for_tpu(module: bytes, loops: int = 1) -> dict[str, Any]:
    """Compiles an XLA module for one chip of a TPU v5e.

    Args:
        module: a serialized XLA module.
        loops: how often its loops run.

    Returns:
        A dictionary. `products` are the floating-point operations of the module's matrix products.
        `flops` are the operations that the compiler counts, with each loop counted once.
        `arguments`, `temporaries` and `memory` (the whole program) are in bytes. `seconds` is the
        processor time of compiling. If the chip's memory is too small, the dictionary has only
        `products` and `refused`, the compiler's message.
    """
    device = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGY).devices[0]
    options = compiler.get_compile_options(
        num_replicas=1, num_partitions=1, device_assignment=np.array([[device.id]])
    )
    with mlir.make_ir_context():
        program = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(module))
        # TensorFlow leaves functions without a caller, for example copies of loops' bodies.
        PassManager.parse("builtin.module(symbol-dce)").run(program.operation)
        operations = list(_operations(program.operation))
        products = sum(_flops(o) * (loops if inside else 1) for o, inside in operations)
        for copy in [o for o, _ in operations if o.name == "mhlo.copy"]:  # unknown to libtpu
            copy.results[0].replace_all_uses_with(copy.operands[0])
            copy.erase()
        began = time.process_time()
        try:
            compiled = device.client.compile(
                program,
                executable_devices=_jax.DeviceList((device,)),
                compile_options=options,
            )
        except _jax.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            used = re.search(r"Used (\S+) of (\S+) hbm", str(error))
            return {"products": products, "refused": used[0] if used else str(error)[:200]}
    memory = compiled.get_compiled_memory_stats()
    arguments, temporaries = memory.argument_size_in_bytes, memory.temp_size_in_bytes
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return {
        "products": products,
        "flops": int(compiled.cost_analysis()["flops"]),
        "arguments": arguments,
        "temporaries": temporaries,
        "memory": arguments + temporaries + results + memory.generated_code_size_in_bytes,
        "seconds": round(time.process_time() - began),
    }


def _operations(operation: Any, inside: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yields all operations inside of one, each with whether it is in a loop."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation, inside
                loop = inside or inner.operation.name == "stablehlo.while"
                yield from _operations(inner.operation, loop)


def _flops(operation: Any) -> int:
    """Returns the floating-point operations of a matrix product, 0 for any other operation."""
    if operation.name == "stablehlo.dot":
        contracted = [ir.RankedTensorType(operation.operands[0].type).shape[-1]]
    elif operation.name == "stablehlo.dot_general":
        numbers = operation.attributes["dot_dimension_numbers"]
        shape = ir.RankedTensorType(operation.operands[0].type).shape
        dimensions = _contracting(str(numbers))
        contracted = [shape[dimension] for dimension in dimensions]
    elif operation.name == "stablehlo.convolution":
        raise NotImplementedError("A convolution: count it, too.")
    else:
        return 0
    result = ir.RankedTensorType(operation.results[0].type).shape
    return 2 * int(np.prod(result)) * int(np.prod(contracted))


def _contracting(numbers: str) -> list[int]:
    found = re.search(r"lhs_contracting_dimensions = \[([\d, ]*)\]", numbers)
    return [int(dimension) for dimension in found[1].split(",")] if found else []


if __name__ == "__main__":
    print(json.dumps(compile_for_tpu(Path(sys.argv[1]).read_bytes(), int(sys.argv[2]))))
