"""Options that several commands share."""

from collections.abc import Callable

import click

from keras_bert.cli.data import FORMATS, GLUE_TASKS

MODEL = click.option(
    "--model", required=True, metavar="DIR", help="Directory of a model, or its name on the hub."
)
BATCH_SIZE = click.option(
    "--batch-size", default=32, show_default=True, type=click.IntRange(1), help="Texts per step."
)

AS_TASK = click.option(
    "--task",
    "as_task",
    type=click.Choice(["similarity"]),
    help="Open any encoder as an embedder, whatever its head.",
)

_COLUMNS = (
    click.option(
        "--text-column",
        metavar="NAME",
        help="Column of the text; of the first of a pair; of the question.",
    ),
    click.option(
        "--pair-column", metavar="NAME", help="Column of the second text; of the context."
    ),
    click.option(
        "--label-column",
        metavar="NAME",
        multiple=True,
        help="Column of the label. Repeat it where each label has a column of 0 and 1.",
    ),
    click.option(
        "--choice-column", metavar="NAME", multiple=True, help="Column of a choice; repeat it."
    ),
    click.option("--first-index", type=int, help="Number of the first choice in the labels."),
    click.option(
        "--comment", metavar="TEXT", help="How lines of a CoNLL file begin that are left out."
    ),
    click.option(
        "--no-header",
        is_flag=True,
        help="The first line is an example; columns are called 1, 2, 3.",
    ),
    click.option(
        "--separator",
        metavar="TEXT",
        help="What stands between several labels of a text.",
    ),
    click.option(
        "--glue",
        type=click.Choice(GLUE_TASKS),
        help="The files are those of this task of GLUE, under their own names.",
    ),
    click.option(
        "--on-error",
        type=click.Choice(["fail", "skip"]),
        default="fail",
        show_default=True,
        help="What to do about an example that cannot be used.",
    ),
)

_FORMAT = click.option(
    "--format", type=click.Choice(FORMATS), help="Of the files; by default as their names end."
)

_SPLITS = (
    click.option("--train", required=True, metavar="FILE", help="What to learn from."),
    click.option("--validation", metavar="FILE", help="To choose the best epoch by."),
    click.option(
        "--validation-share",
        default=0.1,
        show_default=True,
        help="Share of --train to hold out where there is no --validation.",
    ),
    click.option("--test", metavar="FILE", help="To measure the best epoch on."),
)

_SAYS_NOTHING = "say nothing if that scores more than the best answer by this; default: "
NULL_THRESHOLD = click.option(
    "--null-threshold",
    type=float,
    metavar="NUMBER",
    help=f"answer: {_SAYS_NOTHING}the model's; evaluate says which is best.",
)

_HEAD = (
    click.option(
        "--problem",
        type=click.Choice(["single_label", "multi_label", "regression"]),
        help="classify: by default as the labels look.",
    ),
    click.option(
        "--pooling",
        type=click.Choice(["pooled", "first", "mean", "attention"]),
        help="classify, similarity: how tokens become one vector; default: the encoder's pooler, "
        "if it has one; the embedder's, or mean.",
    ),
    click.option("--crf", is_flag=True, help="tag: choose all tags of a text together."),
    click.option(
        "--continue-labels",
        is_flag=True,
        help="tag: teach all tokens of a word, not the first alone.",
    ),
    click.option(
        "--scheme",
        type=click.Choice(["iob1", "iob2", "bioes"]),
        help="tag: how the model writes entities; default: bioes if the file does, else iob2.",
    ),
    click.option(
        "--null-threshold",
        type=float,
        metavar="NUMBER",
        help=f"answer: {_SAYS_NOTHING}0 if there are questions without answer, else never.",
    ),
    click.option(
        "--loss",
        type=click.Choice(["contrastive", "cosine", "softmax"]),
        help="similarity: what pairs teach; default: contrastive without labels, cosine if they "
        "are numbers of which one is not whole, else softmax.",
    ),
    click.option(
        "--score-range",
        type=(float, float),
        metavar="LOW HIGH",
        help="similarity: scores of nothing and all in common; default: as in the file.",
    ),
    click.option(
        "--cross-encoder",
        is_flag=True,
        help="similarity: a classifier that sees both texts at once, instead of vectors.",
    ),
)

_RECIPE = (
    click.option("--epochs", default=3, show_default=True, help="Passes through the examples."),
    BATCH_SIZE,
    click.option("--learning-rate", default=5e-5, show_default=True, help="The highest."),
    click.option("--warmup", default=0.1, show_default=True, help="Share of the steps."),
    click.option("--weight-decay", default=0.01, show_default=True, help="Decoupled."),
    click.option(
        "--global-clipnorm", default=1.0, show_default=True, help="Largest norm of gradients."
    ),
    click.option(
        "--layer-decay",
        default=1.0,
        show_default=True,
        help="The rate of each layer as a share of the next higher one's.",
    ),
    click.option(
        "--crf-rate",
        default=100.0,
        show_default=True,
        help="The rate of a CRF's transitions, as a multiple of the others'.",
    ),
    click.option(
        "--frozen-layers",
        default=0,
        show_default=True,
        help="So many layers above the embeddings keep their weights; -1: the embeddings alone.",
    ),
    click.option(
        "--gradient-accumulation-steps",
        default=1,
        show_default=True,
        help="Parts in which a batch is worked through, for less memory.",
    ),
    click.option(
        "--patience",
        type=int,
        help="Stop after so many epochs without a better one. Default: never.",
    ),
    click.option(
        "--label-smoothing",
        default=0.0,
        show_default=True,
        help="Share of each target that is spread over all labels.",
    ),
    click.option(
        "--class-weights",
        metavar="LABEL=WEIGHT",
        multiple=True,
        help="How much a label counts; repeat it, or say balanced.",
    ),
    click.option(
        "--r-drop", default=0.0, show_default=True, help="Weight of R-Drop; 0 is without it."
    ),
    click.option(
        "--length-buckets/--no-length-buckets",
        default=True,
        show_default=True,
        help="Whether texts of like length share a batch.",
    ),
    click.option("--metric", metavar="NAME", help="What chooses the best epoch."),
    click.option("--seed", default=0, show_default=True, help="Of everything random."),
)


def data_options(function: Callable) -> Callable:
    """The options that say how files of examples are to be read."""
    return _with((*_COLUMNS, _FORMAT), function)


def column_options(function: Callable) -> Callable:
    """The same but for the format, which is as the files' names end."""
    return _with(_COLUMNS, function)


def split_options(function: Callable) -> Callable:
    """The files that a model is trained, chosen and tested on."""
    return _with(_SPLITS, function)


def head_options(function: Callable) -> Callable:
    """The options that say what a model is, by task; None or False where they are left out."""
    return _with(_HEAD, function)


def recipe_options(function: Callable) -> Callable:
    """The options that are fields of a `Recipe`."""
    return _with(_RECIPE, function)


def _with(options: tuple[Callable, ...], function: Callable) -> Callable:
    for option in reversed(options):
        function = option(function)
    return function
