"""Makes the preprocessor and the examples of a run."""

from functools import partial
from typing import Any

from keras_bert.checkpoints import open_checkpoint
from keras_bert.errors import InputError
from keras_bert.families import FAMILIES
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.data.example_index import AnyExampleIndex
from keras_bert.pretraining.data.input_pipeline import Examples
from keras_bert.pretraining.data.masking import TokenMasking, max_predictions
from keras_bert.pretraining.data.records import open_corpus
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.resolve import encoder_fields
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.tokenizer import Tokenizer, load_tokenizer


def make_preprocessor(config: PretrainingConfig) -> Preprocessor:
    """Makes the preprocessor of the run's tokenizer and family.

    Raises:
        InputError: if the vocabulary cannot be used, or differs from the initial checkpoint's
            vocabulary.
    """
    encoder = encoder_fields(config, config.model.family)
    return Preprocessor(
        _tokenizer(config),
        config.data.sequence_length,
        separators_in_pair=FAMILIES[config.model.family].TEXT["separators_in_pair"],
        num_segments=encoder.get("num_segments", 2),
    )


def _tokenizer(config: PretrainingConfig) -> Tokenizer:
    """Loads the tokenizer of `data.vocabulary`, of the initial checkpoint or of the teacher."""
    data, source = config.data, config.model.init_checkpoint
    given = source or config.objective.teacher
    own = open_checkpoint(given)[1].preprocessor if given else None
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
    config: PretrainingConfig, preprocessor: Preprocessor
) -> tuple[Examples, Examples | None]:
    """Makes the training examples and, unless `data.validation_ratio` is 0, held-out examples."""
    tokenizer = preprocessor.tokenizer
    # Two sentences must fit into a sequence.
    max_sentence_tokens = max(config.data.sequence_length // 2, 4)
    open_texts = partial(
        open_corpus,
        tokenizer=tokenizer,
        max_sentence_tokens=max_sentence_tokens,
        text_field=config.data.text_field,
    )
    corpus = open_texts(config.data.corpus)
    held_out = None
    if config.data.validation:
        held_out = open_texts(config.data.validation)
    elif config.data.validation_ratio:
        corpus, held_out = corpus.split(config.data.validation_ratio)
    vocabulary = tokenizer.vocabulary
    corpora = [corpus] if held_out is None else [corpus, held_out]
    if config.data.across_documents:
        corpora = [c.with_document_separators(vocabulary.separator_id) for c in corpora]
    masking = TokenMasking(
        mask_id=vocabulary.mask_id,
        special_ids=vocabulary.special_ids,
        is_continuation=tokenizer.is_continuation,
        rate=config.data.masking_rate,
        max_predictions_per_seq=max_predictions(
            config.data.masking_rate, config.data.sequence_length
        ),
        unit=str(config.data.masking),
        replacement=OBJECTIVES[config.objective.name].replacement,
        seed=config.seed,
    )
    training, *validation = (
        Examples(
            corpus=corpus,
            vocabulary=vocabulary,
            masking=masking,
            sequence_length=config.data.sequence_length,
            objective=OBJECTIVES[config.objective.name],
            across_documents=bool(config.data.across_documents),
            packed=config.data.packed,
            data_service=config.devices.data_service if corpus is corpora[0] else (),
            seed=config.seed,
        )
        for corpus in corpora
    )
    return training, validation[0] if validation else None


def first_index(examples: Examples, name: str) -> AnyExampleIndex:
    """Returns the index of the first epoch's examples. For held-out text, only this epoch is used.

    Raises:
        InputError: if the text is too short.
    """
    try:
        example_index = examples.example_index(0)
    except InputError as error:
        raise InputError(f"The {name} text is not enough. {error}") from None
    if not len(example_index):
        raise InputError(
            f"The {name} text is too short for an example; give more text, or hold out another "
            "ratio (data.validation_ratio, 0 for no held-out text) or other files "
            "(data.validation)."
        )
    return example_index
