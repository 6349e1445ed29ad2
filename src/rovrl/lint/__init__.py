"""A dry run of reward functions on completions that are at hand, before a training run is paid for."""
