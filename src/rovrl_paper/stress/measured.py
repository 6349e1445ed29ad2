"""The rows of a stress test of token log-ratios: displacement and flips of each weight, with intervals."""

from __future__ import annotations

from typing import Any

import torch

from rovrl.config import RatioChannel
from rovrl.output.intervals import bootstrap
from rovrl_paper.stress.ratios import Condition, RecordedResponses, stress

Row = dict[str, Any]
TITLES = {"gspo": "GSPO (mean)", "softrovr": "SoftRoVR", "robust": "SoftRoVR, robust units"}


def rows_for(
    responses: RecordedResponses, condition: Condition, places: torch.Tensor, draws: torch.Tensor
) -> list[Row]:
    """The rows of one condition: D_q and flips, means over prompts with prompt-cluster intervals."""
    found = stress(responses, [condition], RatioChannel(), places)
    rows = []
    for metric in ("D_q", "flips"):
        value = {method: found[f"{metric}/{method}"][0] for method in TITLES}
        row: Row = {
            "perturbation": condition.kind,
            "severity": condition.severity,
            "sign": condition.sign,
            "metric": metric,
        }
        for name, values in (*value.items(), ("difference", value["gspo"] - value["softrovr"])):
            row[name], row[f"{name}_low"], row[f"{name}_high"] = bootstrap(values, draws)
        rows.append(row)
    return rows
