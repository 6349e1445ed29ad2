"""What the engines on transformers' Trainer share (TRL, ms-swift): both channels, their metrics, their state."""
