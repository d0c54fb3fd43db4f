"""The training loop: steps, checkpoints, the log and the hooks."""
