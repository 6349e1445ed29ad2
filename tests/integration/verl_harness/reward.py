"""The harness's reward: the share of digits, with planted spikes and, if asked for, planted NaN.

What is planted depends on the response's text alone, so that every run and every test can tell it again.
"""

import hashlib
import math

SPIKE = 20.0


def planted(text: str, nan: bool = False) -> str:
    """ "spike" for one response in eight, "nan" for another two in eight if `nan`, else ""."""
    ticket = hashlib.sha256(text.encode()).digest()[0] % 8
    return "spike" if ticket == 0 else "nan" if nan and ticket <= 2 else ""


def compute_score(data_source, solution_str, ground_truth, extra_info=None, spikes=True, nan=False, **_):
    """verl's custom reward function."""
    clean = sum(c.isdigit() for c in solution_str) / max(1, len(solution_str))
    kind = planted(solution_str, nan=nan) if spikes else ""
    score = clean + SPIKE if kind == "spike" else math.nan if kind == "nan" else clean
    return {
        "score": score,
        "acc": float(ground_truth in solution_str),
        "planted": kind != "",
        "digits": clean,
        "spiked": None if kind == "nan" else score,
        "brevity": -float(len(solution_str)),
    }
