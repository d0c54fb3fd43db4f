"""Export to TFLite, for phones."""
