"""WordPiece: the tokenizer, its normalization and its trainer."""
