"""Stress tests of the two statistics, on the paper's protocol, on the records of a run, or in simulated worlds.

`rovrl stress rewards | ratios | alignment`
"""
