"""Keras layers and the encoder. They compute with `keras.ops`, so they run on every backend."""
