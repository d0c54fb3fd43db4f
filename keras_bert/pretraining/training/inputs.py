"""From the options of a run to its tokenizer and its examples."""

from typing import Any

from keras_bert.checkpoints import open_checkpoint
from keras_bert.errors import InputError
from keras_bert.families import FAMILIES
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.data.input_pipeline import Examples
from keras_bert.pretraining.data.masking import TokenMasking, slots_for
from keras_bert.pretraining.data.records import open_corpus
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.resolve import encoder_fields
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.tokenizer import Tokenizer


def make_preprocessor(config: PretrainingConfig) -> Preprocessor:
    """Texts to inputs, as the run's tokenizer and family want it.

    Raises:
        InputError: if the vocabulary cannot be used, or is another than that of the model to start
            from.
    """
    encoder = encoder_fields(config, config.family)
    return Preprocessor(
        _tokenizer(config),
        config.sequence_length,
        separators_in_pair=FAMILIES[config.family].TEXT["separators_in_pair"],
        num_segments=encoder.get("num_segments", 2),
    )


def _tokenizer(config: PretrainingConfig) -> Tokenizer:
    """That of the vocabulary or, where it is a model's, as that model has it."""
    given = config.initial or config.teacher
    own = open_checkpoint(given)[1].preprocessor if given else None
    if own is not None and config.vocabulary == given and config.lowercase is None:
        return own.tokenizer
    lowercase: dict[str, Any] = {} if config.lowercase is None else {"lowercase": config.lowercase}
    tokenizer = load_tokenizer(config.vocabulary, **lowercase)
    tokens = tokenizer.vocabulary.tokens
    if config.initial and own is not None and own.vocabulary.tokens != tokens:
        raise InputError(
            f"{config.initial} has another vocabulary than {config.vocabulary}, so its token "
            "embedding would be of no use; leave the option vocabulary out to take its own."
        )
    rows = encoder_fields(config, config.family)["vocabulary_size"]
    if config.initial and own is None and rows != len(tokens):
        raise InputError(
            f"{config.initial} has no vocabulary beside it and rows for {rows} tokens, but "
            f"{config.vocabulary} has {len(tokens)}; name the vocabulary that it was trained with."
        )
    return tokenizer


def make_examples(
    config: PretrainingConfig, preprocessor: Preprocessor
) -> tuple[Examples, Examples | None]:
    """The examples to train on and, unless the share is 0, the held-out ones."""
    tokenizer = preprocessor.tokenizer
    unit = max(config.sequence_length // 2, 4)  # so that two units fit into a sequence
    corpus = open_corpus(config.corpus, tokenizer, max_unit_tokens=unit)
    held_out = None
    if config.validation:
        held_out = open_corpus(config.validation, tokenizer, max_unit_tokens=unit)
    elif config.validation_share:
        corpus, held_out = corpus.split(config.validation_share)
    vocabulary = tokenizer.vocabulary
    corpora = [corpus] if held_out is None else [corpus, held_out]
    if config.across_documents:
        corpora = [c.with_document_separators(vocabulary.separator_id) for c in corpora]
    masking = TokenMasking(
        mask_id=vocabulary.mask_id,
        special_ids=vocabulary.special_ids,
        is_continuation=tokenizer.is_continuation,
        rate=config.masking_rate,
        slots=slots_for(config.masking_rate, config.sequence_length),
        unit=str(config.masking),
        replacement=OBJECTIVES[config.objective].masked,
        seed=config.seed,
    )
    training, *validation = (
        Examples(
            corpus=corpus,
            vocabulary=vocabulary,
            masking=masking,
            sequence_length=config.sequence_length,
            objective=OBJECTIVES[config.objective],
            across_documents=bool(config.across_documents),
            packed=config.packed,
            data_service=config.data_service if corpus is corpora[0] else (),
            seed=config.seed,
        )
        for corpus in corpora
    )
    return training, validation[0] if validation else None
