"""Long runs of what tests do in short: `make soak`, or `PYTHONPATH=tests python -m soak chaos verifier kills generations`."""
