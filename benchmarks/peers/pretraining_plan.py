"""What `pretraining_speed.py` trains and how; all sides read this and nothing else.

What has to do with the optimizer stands in `plan.py`, as for fine-tuning.
"""

LENGTH, MASKED, DROPOUT, LEARNING_RATE = 128, 0.15, 0.1, 1e-4
MAX_PREDICTIONS = 20  # enough for the share that is masked of a full row, where a side has slots

# Steps that are not measured, in which graphs are traced and caches filled, and steps that are.
SIZES = {
    "bert_mini": {"num_layers": 4, "hidden_size": 256, "warmup": 4, "steps": 20},
    "bert_base": {"num_layers": 12, "hidden_size": 768, "warmup": 2, "steps": 4},
}


def read_lines(path):
    """The lines of a text that are not blank."""
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()]
