"""WordPiece: the tokenizer, its normalization and the training of vocabularies."""
