"""What a saved model's card says: the method that ran, its settings, and whom to cite."""

from __future__ import annotations

import json
from typing import NamedTuple

from rovrl import __version__
from rovrl.integrations.trl.config import RoVRConfig
from rovrl.integrations.trl.installed import GRPOTrainer

ROVR = {
    "title": "Dual-Channel Robust Group-Relative Policy Optimization via Advantage and Sequence-Weight Estimation",
    "citation": """@article{li2026rovrgspo,
    title  = {{Dual-Channel Robust Group-Relative Policy Optimization via Advantage and Sequence-Weight Estimation}},
    author = {Zhongyi Li and Wan Tian and Xiang Xu and Yutian Xiao and Yikun Ban and Yijie Peng and Fuzhen Zhuang},
    year   = 2026,
}""",
}
"""The paper that introduced the channels; it has no number by which the Hub could link it."""
GSPO = {
    "title": "Group Sequence Policy Optimization",
    "id": "2507.18071",
    "citation": """@article{zheng2025gspo,
    title  = {{Group Sequence Policy Optimization}},
    author = {Chujie Zheng and Shixuan Liu and Mingze Li and Xiong-Hui Chen and Bowen Yu and others},
    year   = 2025,
    eprint = {arXiv:2507.18071},
}""",
}
TITLES = {"gspo": "GSPO", "rovr-adv": "RoVR-Adv", "softrovr": "SoftRoVR", "rovr-gspo": "RoVR-GSPO"}


class Card(NamedTuple):
    """The words that TRL puts into the card: trainer name, paper, tags."""

    name: str
    paper: dict[str, str]
    tags: list[str]


def card(config: RoVRConfig) -> Card:
    """What ran: with both channels off it is GSPO, or GRPO at token level, and neither our name nor our paper appears."""
    method = config.method_name
    if method == "gspo" and config.importance_sampling_level == "token":
        return Card(GRPOTrainer._name, dict(GRPOTrainer._paper), ["trl", "grpo"])
    paper = GSPO if method == "gspo" else ROVR
    return Card(TITLES.get(method, method), dict(paper), ["trl", method])


def settings_section(config: RoVRConfig) -> str:
    """The section of the card with everything that decides the method, and the software's citation."""
    settings = json.dumps(config.record_settings, indent=2)
    return f"""
## Method settings

Trained by `rovrl` {__version__} (`{config.method_name}`): null switches a channel off, so that both null is plain GSPO.

```json
{settings}
```

Cite the software as: The rovrl authors, *rovrl: robust group-relative policy optimization*, version {__version__}, 2026.
"""
