"""AdamW, LAMB, learning-rate schedules and loss scaling."""
