"""Settings of `pretraining_speed.py`, for all sides.

The settings of the optimizer are in `plan.py`, as for fine-tuning.
"""

LENGTH, MASKED, DROPOUT, LEARNING_RATE = 128, 0.15, 0.1, 1e-4
MAX_PREDICTIONS = 20  # for sides with a fixed number: at least 15 % of 128 tokens

# The `warmup` steps trace graphs and fill caches. Then `steps` steps are measured.
SIZES = {
    "bert_mini": {"num_layers": 4, "hidden_size": 256, "warmup": 4, "steps": 20},
    "bert_base": {"num_layers": 12, "hidden_size": 768, "warmup": 2, "steps": 4},
}


def read_lines(path):
    """Returns the lines of a text that are not blank."""
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()]
