"""SentencePiece: the tokenizer, the model file and the training of models."""
