"""Robust location of batches of numbers: scores, root solver, blocks, centers, scales, corrections. No rewards, no tokens."""
