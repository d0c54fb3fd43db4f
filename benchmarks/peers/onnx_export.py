"""Write a Hugging Face encoder as an ONNX file with one of torch's exporters.

`torchscript` traces the model with plain attention; this graph was the fastest that was tried.
`dynamo` is the default of `torch.onnx.export`. Run this with a Python that has torch.
"""

import argparse
import inspect

import torch
import transformers

NAMES = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("last_hidden_state", "pooler_output")
ATTENTION = {"torchscript": "eager", "dynamo": "sdpa"}


class Encoder(torch.nn.Module):
    """An encoder whose inputs and outputs are tuples."""

    def __init__(self, weights, attention):
        super().__init__()
        self.model = transformers.AutoModel.from_pretrained(weights, attn_implementation=attention)
        self.names = [
            name for name in NAMES if name in inspect.signature(self.model.forward).parameters
        ]

    def forward(self, *arrays):
        """Maps ids int64 `[B, T]`, in the order of `names`, to hidden states and pooled output."""
        outputs = self.model(**dict(zip(self.names, arrays, strict=True)))
        return tuple(outputs[name] for name in OUTPUTS if name in outputs)


def export(weights, path, exporter):
    model = Encoder(weights, ATTENTION[exporter]).eval()
    ids = torch.randint(5, 1000, (2, 16))
    inputs = tuple(ids if name == "input_ids" else torch.ones_like(ids) for name in model.names)
    options = {"input_names": model.names, "output_names": list(OUTPUTS)}
    if exporter == "dynamo":
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=512)}
        options |= {"dynamic_shapes": ((axes,) * len(inputs),), "external_data": False}
    else:
        axes = {0: "batch", 1: "sequence"}
        options |= {"dynamic_axes": dict.fromkeys(model.names, axes), "opset_version": 17}
    torch.onnx.export(model, inputs, path, dynamo=exporter == "dynamo", **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", help="model directory in Hugging Face's format")
    parser.add_argument("path", help="the ONNX file")
    parser.add_argument("--exporter", choices=ATTENTION, default="torchscript")
    options = parser.parse_args()
    export(options.weights, options.path, options.exporter)


if __name__ == "__main__":
    main()
