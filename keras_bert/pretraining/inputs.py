"""From the options of a run to its tokenizer and its examples."""

from typing import Any

from keras_bert.families import FAMILIES
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.corpus import TokenizedCorpus
from keras_bert.pretraining.examples import Examples
from keras_bert.pretraining.masking import TokenMasking, slots_for
from keras_bert.pretraining.objectives import OBJECTIVES
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.preprocessor import Preprocessor


def make_preprocessor(config: PretrainingConfig) -> Preprocessor:
    """Texts to inputs, as the run's tokenizer and family want it."""
    lowercase: dict[str, Any] = {} if config.lowercase is None else {"lowercase": config.lowercase}
    family = FAMILIES[config.family]
    return Preprocessor(
        load_tokenizer(config.vocabulary, **lowercase),
        config.sequence_length,
        separators_in_pair=family.TEXT["separators_in_pair"],
        num_segments=(family.TRAITS | dict(config.encoder)).get("num_segments", 2),
    )


def make_examples(
    config: PretrainingConfig, preprocessor: Preprocessor
) -> tuple[Examples, Examples | None]:
    """The examples to train on and, unless the share is 0, the held-out ones."""
    tokenizer = preprocessor.tokenizer
    unit = max(config.sequence_length // 2, 4)  # so that two units fit into a sequence
    corpus = TokenizedCorpus.from_files(config.corpus, tokenizer, max_unit_tokens=unit)
    held_out = None
    if config.validation:
        held_out = TokenizedCorpus.from_files(config.validation, tokenizer, max_unit_tokens=unit)
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
            objective=config.objective,
            across_documents=bool(config.across_documents),
            seed=config.seed,
        )
        for corpus in corpora
    )
    return training, validation[0] if validation else None
