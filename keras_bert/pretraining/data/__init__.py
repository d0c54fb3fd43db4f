"""Steps from text to batches: the corpus, records of tokens, masking, and the input pipeline."""
