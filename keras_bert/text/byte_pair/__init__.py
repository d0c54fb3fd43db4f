"""Byte-level byte-pair encoding: the tokenizer, its tables and the training of vocabularies."""
