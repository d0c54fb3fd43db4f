"""SentencePiece: the tokenizer, the model's file and its trainer."""
