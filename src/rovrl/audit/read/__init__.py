"""Saved rollouts, whoever wrote them, as rows in groups."""
