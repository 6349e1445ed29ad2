"""The dumps of programs that train: TRL, verl, ms-swift, NeMo-RL, prime-rl."""
