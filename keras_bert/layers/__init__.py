"""Tensors in, tensors out: everything here is written with `keras.ops`."""
