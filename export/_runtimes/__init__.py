"""Artifacts in their own runtimes: TensorFlow, LiteRT, onnxruntime."""
