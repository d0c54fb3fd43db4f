"""Makes the preprocessor and the examples of a run."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from keras_bert.checkpoints import open_checkpoint
from keras_bert.errors import InputError
from keras_bert.families import FAMILIES
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.data.corpus import TokenizedCorpus
from keras_bert.pretraining.data.input_pipeline import Examples
from keras_bert.pretraining.data.masking import TokenMasking, max_predictions
from keras_bert.pretraining.data.sources import Source, open_source
from keras_bert.pretraining.data.stream import ExampleStream
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.resolve import encoder_fields
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.tokenizer import Tokenizer, load_tokenizer

GIGABYTE = 10**9
BYTES_PER_TOKEN = 44
"""Number of bytes in memory for each token of a block.

Three blocks are in memory: the first one, the one in use, and the one that is read next.
"""


def make_preprocessor(config: PretrainingConfig) -> Preprocessor:
    """Makes the preprocessor of the run's tokenizer.

    If there is an initial checkpoint or a teacher with a preprocessor, the separators are the same
    as there, else as in the family.

    Raises:
        InputError: if the vocabulary cannot be used, or differs from the initial checkpoint's
            vocabulary.
    """
    given = config.model.init_checkpoint or config.objective.teacher
    own = open_checkpoint(given)[1].preprocessor if given else None
    tokenizer, length = _tokenizer(config, own), config.data.sequence_length
    num_segments = encoder_fields(config, config.model.family).get("num_segments", 2)
    if own is None:
        separators = FAMILIES[config.model.family].TEXT["separators_in_pair"]
        return Preprocessor(
            tokenizer, length, separators_in_pair=separators, num_segments=num_segments
        )
    return Preprocessor(
        tokenizer,
        length,
        separators_in_pair=own.separators_in_pair,
        separator_at_end=own.separator_at_end,
        num_segments=min(own.num_segments, num_segments),
    )


def _tokenizer(config: PretrainingConfig, own: Preprocessor | None) -> Tokenizer:
    """Loads the tokenizer of `data.vocabulary`, or the one in `own`, the checkpoint's."""
    data, source = config.data, config.model.init_checkpoint
    given = source or config.objective.teacher
    if own is not None and data.vocabulary == given and data.lowercase is None:
        return own.tokenizer
    lowercase: dict[str, Any] = {} if data.lowercase is None else {"lowercase": data.lowercase}
    tokenizer = load_tokenizer(str(data.vocabulary), **lowercase)
    tokens = tokenizer.vocabulary.tokens
    if source and own is not None and own.vocabulary.tokens != tokens:
        raise InputError(
            f"{source} has another vocabulary than {data.vocabulary}, so its token embedding "
            "cannot be used; leave data.vocabulary out to use the model's own vocabulary."
        )
    rows = encoder_fields(config, config.model.family)["vocabulary_size"]
    if source and own is None and rows != len(tokens):
        raise InputError(
            f"{source} has no vocabulary, and its token embedding has rows for {rows} tokens, but "
            f"{data.vocabulary} has {len(tokens)}; give the vocabulary that it was trained with."
        )
    return tokenizer


def make_examples(
    config: PretrainingConfig,
    preprocessor: Preprocessor,
    worker: int = 0,
    num_workers: int = 1,
    *,
    corpus: Sequence[Any] = (),
) -> tuple[ExampleStream, Examples | None]:
    """Makes the training examples and, unless `data.validation_ratio` is 0, held-out examples.

    Args:
        config: resolved options of the run.
        preprocessor: result of `make_preprocessor`.
        worker: index of this worker.
        num_workers: number of workers.
        corpus: datasets of Hugging Face's datasets in place of the names in `data.corpus`, one for
            each. `data.text_field` names the column with the text. Rows are documents.

    Raises:
        InputError: if the text cannot be used, or the number of datasets is another.
    """
    if corpus and len(corpus) != len(config.data.corpus):
        raise InputError(
            f"There are {len(corpus)} datasets, but data.corpus has {len(config.data.corpus)} "
            "names; give a name for each dataset."
        )
    data, tokenizer = config.data, preprocessor.tokenizer
    vocabulary, rate = tokenizer.vocabulary, float(config.data.masking_rate or 0)
    masking = TokenMasking(
        mask_id=vocabulary.mask_id,
        special_ids=vocabulary.special_ids,
        is_continuation=tokenizer.is_continuation,
        rate=rate,
        max_predictions_per_seq=max_predictions(rate, data.sequence_length),
        unit=str(data.masking),
        replacement=OBJECTIVES[config.objective.name].replacement,
        seed=config.seed,
    )

    def examples(corpus: TokenizedCorpus, data_service: tuple[str, ...] = ()) -> Examples:
        if data.across_documents:
            corpus = corpus.with_document_separators(vocabulary.separator_id)
        return Examples(
            corpus=corpus,
            vocabulary=vocabulary,
            masking=masking,
            sequence_length=data.sequence_length,
            objective=OBJECTIVES[config.objective.name],
            across_documents=bool(data.across_documents),
            packed=bool(data.packed),
            data_service=data_service,
            separator_at_end=preprocessor.separator_at_end,
            seed=config.seed,
        )

    def source(names: Sequence[Any], **mixture: Any) -> Source:
        return open_source(
            names,
            tokenizer,
            max_sentence_tokens=max(data.sequence_length // 2, 4),  # two fit into a sequence
            block_tokens=max(1, int(data.memory * GIGABYTE) // BYTES_PER_TOKEN),
            seed=config.seed,
            text_field=data.text_field,
            unreadable_files=data.unreadable_files,
            **mixture,
        )

    training = ExampleStream(
        source(corpus or data.corpus, weights=data.weights, temperature=data.temperature),
        partial(examples, data_service=config.devices.data_service),
        0.0 if data.validation else data.validation_ratio,
        worker,
        num_workers,
    )
    held_out = training.held_out
    if data.validation:
        held_out = next(source(data.validation).blocks(0)).corpus
    return training, None if held_out is None else examples(held_out)
