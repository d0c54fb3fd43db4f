"""Tasks: models of an encoder and a head, ready for Keras' `fit`."""
