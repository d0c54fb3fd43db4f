"""Shows a model's attention and answers, a map of its vectors, and the curves of its training.

Each name of this package is imported when it is first used.
"""

from keras_bert.extras import lazy_names

_MODULES = {
    "Attention": "attention_page",
    "Attribution": "attribution_page",
    "attention": "attention_page",
    "attribution": "attribution_page",
    "embedding_map": "maps",
    "plot_confusion": "finetuning",
    "plot_curves": "finetuning",
    "plot_runs": "curves",
    "pretraining_curves": "curves",
}

__all__ = list(_MODULES)

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
