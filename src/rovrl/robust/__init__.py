"""Robust location of batches of numbers, whatever they measure: scores, root solver, blocks, centers, scales, corrections."""
