"""The dumps of other programs: ms-swift, NeMo-RL, prime-rl."""
