"""Byte-level byte-pair encoding: the tokenizer, its tables and its trainer."""
