"""Two or more runs side by side: paired where the prompts match, with intervals, curves and the same group of each."""

from rovrl.audit.comparing.comparison import Comparison, compare
from rovrl.audit.comparing.differences import Difference

__all__ = ["Comparison", "Difference", "compare"]
