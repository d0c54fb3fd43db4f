"""Export to SavedModel, for TensorFlow Serving."""
