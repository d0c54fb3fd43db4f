"""Comparison of exported files with the Keras model: outputs, accuracy, sizes, latencies."""
