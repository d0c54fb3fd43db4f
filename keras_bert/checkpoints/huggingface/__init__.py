"""Hugging Face directories: configuration, weights, and sentence-transformers modules."""
