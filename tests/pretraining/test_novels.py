"""The statistics of the paper, over a real corpus of more than ten million tokens."""

from collections import Counter

import numpy as np
import pytest

from keras_bert.pretraining.data.example_index import full_sentences_index
from keras_bert.pretraining.data.input_pipeline import Examples
from keras_bert.pretraining.data.masking import MASKING_UNITS, TokenMasking
from keras_bert.pretraining.data.sentence_pairs import sentence_order_index
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.tokenizer import WordPiece
from tests.marks import others_swept
from tests.pretraining.text import open_corpus


@pytest.fixture(scope="module")
def novels(shared_data):
    vocabulary = Vocabulary.from_file(shared_data / "vocabs" / "bert-base-uncased" / "vocab.txt")
    path = shared_data / "corpora" / "novels.txt.gz"
    return vocabulary, open_corpus([path], WordPiece(vocabulary))


@pytest.mark.private_data
@pytest.mark.slow
@pytest.mark.parametrize("unit", others_swept(MASKING_UNITS, quick=["word"]))
def test_masks_and_pairs(novels, unit):
    vocabulary, corpus = novels
    assert len(corpus.tokens) > 10e6
    special, mask = np.array(vocabulary.special_ids), vocabulary.mask_id
    masking = TokenMasking(
        mask_id=mask,
        special_ids=vocabulary.special_ids,
        is_continuation=corpus.is_continuation,
        unit=unit,
    )
    examples = Examples(
        corpus=corpus,
        vocabulary=vocabulary,
        masking=masking,
        sequence_length=128,
        objective=OBJECTIVES["mlm+nsp"],
    )
    total = Counter[str]()
    for x, y, w in examples.dataset(1024).as_numpy_iterator():
        chosen = (w["mlm_logits"] > 0) & (w["nsp_logits"] > 0)[:, None]
        row, slot = np.nonzero(chosen)
        position, label = x["masked_positions"][row, slot], y["mlm_logits"][row, slot]
        original = x["token_ids"].copy()
        original[row, position] = label
        put = x["token_ids"][row, position]
        real = (w["nsp_logits"] > 0)[:, None] & (x["padding_mask"] > 0)
        total["tokens"] += real.sum()
        total["maskable"] += (real & ~np.isin(original, special)).sum()
        total["masked"] += len(row)
        total["as_mask"] += (put == mask).sum()
        total["kept"] += (put == label).sum()
        total["special"] += np.isin(label, special).sum()
        total["special"] += (x["padding_mask"][row, position] == 0).sum()
        masked = np.zeros(original.shape, bool)
        masked[row, position] = True
        # A piece that continues a word has the state of the piece before it.
        continues = corpus.is_continuation[original[:, 1:]] & ~np.isin(original[:, :-1], special)
        split = continues & (masked[:, 1:] != masked[:, :-1]) & real[:, 1:]
        # One of the novels has pages of Greek without spaces, of which rows are the inside.
        within = ~(real & ~np.isin(original, special) & ~corpus.is_continuation[original]).any(1)
        total["within_a_word"] += (within & real.any(1)).sum()
        total["split_words"] += split[~within].sum()
    shares = {name: total[name] / total["masked"] for name in ("as_mask", "kept")}
    rate = total["masked"] / total["maskable"]
    true_next = 1 - examples.example_index(0).label.mean()
    print(f"\n{unit}: {total['tokens']} tokens, masked {rate:.4%}, {shares}, ")
    print(f"special {total['special']}, split {total['split_words']}, true next {true_next:.4%}")
    assert rate == pytest.approx(0.15, abs=0.001)
    assert shares["as_mask"] == pytest.approx(0.8, abs=0.003)
    assert shares["kept"] == pytest.approx(0.1, abs=0.003)
    assert total["special"] == 0
    assert true_next == pytest.approx(0.5, abs=0.005)
    if unit != "token":
        assert total["split_words"] == 0
    assert total["within_a_word"] < 10


@pytest.mark.private_data
@pytest.mark.slow
def test_full_sentences_and_sentence_order(novels):
    vocabulary, corpus = novels
    separated = corpus.with_document_separators(vocabulary.separator_id)
    index = full_sentences_index(separated, 126)
    uses = np.zeros(len(separated.tokens) + 1, np.int32)
    np.add.at(uses, index.a_start, 1)
    np.add.at(uses, index.a_start + index.a_length, -1)
    uses = np.cumsum(uses)[:-1]
    assert (uses[separated.tokens != vocabulary.separator_id] == 1).all()
    assert uses.max() == 1
    print(f"\nfull sentences: {len(index)} of {index.a_length.mean():.1f} tokens")
    assert index.a_length.max() <= 126
    assert index.a_length.mean() > 0.8 * 126

    pairs = sentence_order_index(corpus, 125)
    size = pairs.a_length + pairs.b_length
    print(f"sentence order: {len(pairs)} of {size.mean():.1f}, swapped {pairs.label.mean():.4%}")
    assert pairs.label.mean() == pytest.approx(0.5, abs=0.005)
    np.testing.assert_array_equal(pairs.label == 1, pairs.b_start < pairs.a_start)
