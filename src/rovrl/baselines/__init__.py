"""The peers, with the same signatures as ours, each with its source and its known weakness in one line.

`ADVANTAGES[name](rewards [..., group], channel, *, blocks=None, generator=None)`; the channel and the blocks play no part.
`WEIGHTS[name](log_ratios [..., token], mask, channel, advantages)`: log sequence weights.
`OBJECTIVES[name](log_ratios [seq, token], advantages [seq], mask)`: to be maximised; for peers that change more than a weight.
"""

from __future__ import annotations

from rovrl.baselines.advantages import ADVANTAGES
from rovrl.baselines.objectives import OBJECTIVES
from rovrl.baselines.weights import WEIGHTS

__all__ = ["ADVANTAGES", "OBJECTIVES", "WEIGHTS"]
