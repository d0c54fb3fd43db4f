"""Export to ONNX, for servers."""
