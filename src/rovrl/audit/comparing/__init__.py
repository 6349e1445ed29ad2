"""Two or more runs side by side: paired where the prompts match, with intervals, curves and the same group of each."""

from rovrl.audit.comparing.comparison import Comparison, Difference, compare

__all__ = ["Comparison", "Difference", "compare"]
