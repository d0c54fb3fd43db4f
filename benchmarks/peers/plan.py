"""Tasks and hyperparameters of the fine-tuning benchmarks. Both sides read all settings from here.

Both sides train with AdamW (0.9, 0.999, 1e-6) and a decoupled weight decay of 0.01, which leaves
out biases and layer normalizations. The learning rate rises from 0 over the first tenth of the
steps, then falls linearly to 0. The gradient's norm is clipped at 1. Dropout is as in the model's
configuration.

A batch has texts of similar length and is padded to its longest text. keras_bert shuffles the
batches; the Trainer sorts pools of at most 50 batches and takes the longest texts first. There is
no validation: the model of the last epoch is measured.
"""

WARMUP, WEIGHT_DECAY, CLIP_NORM, EPSILON = 0.1, 0.01, 1.0, 1e-6

ADAPTED = {  # layers with low-rank adapters
    "attention": ("query", "value"),  # as in the paper
    "all": ("query", "key", "value", "intermediate", "output"),
}

TASKS = {
    "mrpc": {
        "job": "texts",
        "problem": "single_label",
        "epochs": 4,
        "batch_size": 32,
        "learning_rate": 1e-4,
        "length": 128,
        "pooling": "mean",
        "metric": "f1",
        "goal": 0.87,
    },
    "stsb": {
        "job": "texts",
        "problem": "regression",
        "epochs": 4,
        "batch_size": 32,
        "learning_rate": 1e-4,
        "length": 128,
        "pooling": "mean",
        "metric": "spearman",
        "goal": 0.86,
    },
    "wikigold": {
        "job": "words",
        "epochs": 4,
        "batch_size": 32,
        "learning_rate": 3e-4,
        "length": 256,
        "metric": "f1",
    },
    "snips-intents": {
        "job": "texts",
        "problem": "single_label",
        "epochs": 1,
        "batch_size": 32,
        "learning_rate": 2e-4,
        "length": 64,
        "metric": "accuracy",
        "goal": 0.97,
    },
    "snips-slots": {
        "job": "words",
        "epochs": 2,
        "batch_size": 32,
        "learning_rate": 3e-4,
        "length": 64,
        "metric": "f1",
    },
    "wnut17": {
        "job": "words",
        "epochs": 2,
        "batch_size": 32,
        "learning_rate": 3e-4,
        "length": 256,
        "metric": "f1",
    },
    "sst2": {
        "job": "texts",
        "problem": "single_label",
        "epochs": 3,
        "batch_size": 32,
        "learning_rate": 1e-4,
        "length": 128,
        "pooling": "mean",
        "metric": "accuracy",
        "goal": 0.90,
    },
    "squad": {
        "job": "questions",
        "epochs": 1,
        "batch_size": 16,
        "learning_rate": 1e-4,
        "length": 384,
        "overlap": 128,
        "answer_tokens": 30,
        "metric": "f1",
    },
}
