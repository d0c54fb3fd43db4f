"""AdamW, StableAdamW, LAMB, learning-rate schedules and loss scaling."""
