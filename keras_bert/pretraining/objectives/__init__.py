"""Objectives of pretraining: their losses, and the models that they need."""
