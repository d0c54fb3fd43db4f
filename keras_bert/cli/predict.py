"""Command `keras-bert predict`: predicts for texts."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import click

from keras_bert.cli.files import (
    OVERWRITE,
    batches,
    check_output,
    is_predictions,
    is_squad_predictions,
    json_line,
    write_json,
)
from keras_bert.cli.options import (
    AS_TASK,
    BATCH_SIZE,
    COLUMNS,
    FORMAT,
    MODEL,
    NULL_THRESHOLD,
    add,
    flag_of,
    given,
    load_model,
    reader,
)
from keras_bert.errors import InputError
from keras_bert.tasks.registry import TASKS

_BATCHES_AT_ONCE = 16  # read from a file together, so that texts of similar length share a batch


class _Count(click.ParamType):
    """A number, 1 or more, or the word "all", which becomes None."""

    name = "NUMBER|all"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | None:
        if value == "all":
            return None
        return click.IntRange(1).convert(value, param, ctx)


@click.command("predict")
@MODEL
@AS_TASK
@click.option("--data", metavar="FILE", help="File of texts; labels are not needed.")
@click.option("--pairs", is_flag=True, help="Each text is a pair, with a tab between the texts.")
@click.option("--output", metavar="FILE", help="File to write; default: standard output.")
@click.option(
    "--squad-predictions",
    metavar="FILE.json",
    help="Also write the answers in the format of SQuAD's official scripts.",
)
@NULL_THRESHOLD
@click.option(
    "--top-k",
    type=_Count(),
    default=1,
    show_default=True,
    help="classify: number of labels with scores, the best first, or all.",
)
@add(*COLUMNS, FORMAT)
@BATCH_SIZE
@OVERWRITE
@click.argument("texts", nargs=-1)
def command(
    model: str,
    as_task: str | None,
    data: str | None,
    pairs: bool,
    output: str | None,
    squad_predictions: str | None,
    null_threshold: float | None,
    top_k: int | None,
    batch_size: int,
    overwrite: bool,
    texts: tuple[str, ...],
    **options: Any,
) -> None:
    """Predict labels, answers or vectors of texts.

    The texts are arguments, the examples of a file (--data), or lines of standard input.

    Prints one line of JSON for each text, as soon as it is known. Put a tab between a question and
    its context, and between a context and its choices. An existing file of predictions is replaced.
    """
    if data is not None and (texts or pairs):
        raise click.UsageError("Give texts or --data, not both; a file has pairs in two columns.")
    if data is None and (unused := given(options).keys() - {"on_error"}):
        raise click.UsageError(f"{flag_of(min(unused))} is for --data.")
    if output is not None and output == squad_predictions:
        raise click.UsageError("Give --output and --squad-predictions two different files.")
    check_output(output, (data, model), is_predictions, overwrite)
    check_output(squad_predictions, (data, model), is_squad_predictions, overwrite)
    from keras_bert.finetuning.evaluation import check_top_k, predictions_of
    from keras_bert.finetuning.jobs import job_of_task
    from keras_bert.finetuning.readers.questions import write_predictions

    task, tuned = load_model(model, as_task, null_threshold)
    if squad_predictions and task != "span_classifier":
        raise InputError(
            f"{model} does not answer questions, but --squad-predictions needs a model that does."
        )
    check_top_k(tuned, top_k)
    kind = job_of_task(task).examples
    if pairs and kind.texts_per_line[1] < 2:
        raise click.UsageError(f"--pairs is not for the task {TASKS[task].command}.")

    def inputs() -> Iterator[Any]:
        """Yields parts of the input, each with the examples to predict at once."""
        if data is None:
            for number, batch in enumerate(batches(texts, batch_size)):
                yield kind.from_lines(batch, pairs=pairs, first=1 + number * batch_size)
            return
        examples = reader(task, options, labeled=False)(data)
        step = batch_size * _BATCHES_AT_ONCE
        for start in range(0, len(examples), step):
            yield examples.take(range(start, min(start + step, len(examples))))

    answers: dict[str, str] = {}
    cut = count = 0
    with _writer(output) as write:
        for examples in inputs():
            found, rows = predictions_of(tuned, examples, batch_size=batch_size, top_k=top_k)
            cut, count = cut + rows.cut, count + len(rows)
            for index, prediction in enumerate(found):
                write({**examples.shown(index), **prediction})
                if squad_predictions:
                    answers[examples.ids[index]] = prediction["answer"]
    if cut:
        tuned.warn_of_cut(cut, count, pairs=rows.pairs)
    if squad_predictions:
        write_predictions(answers, squad_predictions)


@contextlib.contextmanager
def _writer(output: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields a function that writes a line to standard output or to a file.

    The file appears when the `with` block ends without an error.
    """
    if output is None:
        yield write_json
        return
    from keras_bert.atomic import replacing

    with replacing(output) as path, open(path, "wb") as file:
        yield lambda value: file.write(json_line(value))
