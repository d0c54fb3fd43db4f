"""Pretraining of an encoder on text: corpus, examples, masking, and the training loop."""
