"""Which stretches of text make the examples of an epoch: one file per plan.

Every draw is a function of (seed, epoch, unit), so a plan can be made anywhere and again.
"""

from keras_bert.pretraining.data.example_index.index import EpochPlan
from keras_bert.pretraining.data.example_index.next_sentence import plan_pairs
from keras_bert.pretraining.data.example_index.packed import PackedPlan, plan_packed
from keras_bert.pretraining.data.example_index.sentence_order import plan_ordered_pairs
from keras_bert.pretraining.data.example_index.sentences import plan_full_sentences, plan_segments

Plan = EpochPlan | PackedPlan

__all__ = [
    "EpochPlan",
    "PackedPlan",
    "Plan",
    "plan_full_sentences",
    "plan_ordered_pairs",
    "plan_packed",
    "plan_pairs",
    "plan_segments",
]
