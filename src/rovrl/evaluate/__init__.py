"""Evaluation of a model on the paper's tasks: `rovrl eval`."""
