"""Stress tests of the two statistics, on the paper's protocol or on the records of a run: `rovrl stress rewards | ratios`."""
