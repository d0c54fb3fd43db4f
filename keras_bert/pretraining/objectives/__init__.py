"""What a model learns in pretraining: its losses, and the models that they need."""
