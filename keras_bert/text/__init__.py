"""Tokenizers and preprocessing: strings to token ids, inside the TensorFlow graph."""
