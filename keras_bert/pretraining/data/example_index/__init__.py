"""Indices of the examples of an epoch: the spans of text in each example. One file per kind.

Every draw is a function of (seed, epoch, sentence), so every process makes the same index.
"""

from keras_bert.pretraining.data.example_index.index import ExampleIndex
from keras_bert.pretraining.data.example_index.next_sentence import next_sentence_index
from keras_bert.pretraining.data.example_index.packed import PackedExampleIndex, packed_index
from keras_bert.pretraining.data.example_index.sentence_order import sentence_order_index
from keras_bert.pretraining.data.example_index.sentences import full_sentences_index, segments_index

AnyExampleIndex = ExampleIndex | PackedExampleIndex

__all__ = [
    "AnyExampleIndex",
    "ExampleIndex",
    "PackedExampleIndex",
    "full_sentences_index",
    "next_sentence_index",
    "packed_index",
    "segments_index",
    "sentence_order_index",
]
