"""Runs a classifier in PyTorch, in the place of a module such as `_onnx/runtime.py`.

`keras_bert.export.worker` loads this file in a Python with torch and transformers.
"""

import torch
import transformers

PACKAGE = "torch"


def prepare(path, threads, precision):
    """Returns a function that loads the model; `precision` is "float32" or "bfloat16"."""
    torch.set_num_threads(threads)

    def load():
        classifier = transformers.AutoModelForSequenceClassification
        model = classifier.from_pretrained(path, dtype=getattr(torch, precision)).eval()

        def run(signature, inputs):
            tensors = {name: torch.from_numpy(array).long() for name, array in inputs.items()}
            with torch.inference_mode():
                logits = model(
                    input_ids=tensors["token_ids"], attention_mask=tensors["padding_mask"]
                ).logits
            return {"logits": logits.float().numpy()}

        shapes = {name: [-1, -1] for name in ("token_ids", "padding_mask")}
        return {"ids": {"inputs": shapes, "outputs": ["logits"]}}, run

    return load
