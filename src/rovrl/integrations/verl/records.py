"""Records of a verl run: the driver and every rank keep their part of a step, and `join` turns these into record files.

    <record_dir>/current                      the number of the step that is being recorded
    <record_dir>/step_000007/rows.json        driver: key, reward and fingerprint of each response, groups' references
    <record_dir>/step_000007/rank_0_000.npz   rank 0, first micro-batch: token log-ratios, advantages, fingerprints

The loss knows neither step nor response. It reads the step from `current`, which the driver writes before the update;
it knows a response by its log-probabilities under the old policy, which the driver finds in verl's TransferQueue under
the response's key. Their hash is the fingerprint, so the join is exact.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from rovrl.advantage import Explanation
from rovrl.config import RatioChannel
from rovrl.output.files import write_text
from rovrl.records.files import CALLS

MEGABYTE = 1 << 20

logger = logging.getLogger("rovrl")


def fingerprint(old_log_probs: np.ndarray) -> str:
    """16 hex digits for one response's old log-probabilities; zeros at the end, which pad them, do not count."""
    return hashlib.sha256(np.trim_zeros(old_log_probs.astype(np.float32), "b").tobytes()).hexdigest()[:16]


class Publisher:
    """The driver's side: says which step is being recorded, and to which response each fingerprint belongs."""

    @classmethod
    def of(cls, policy_loss: Any) -> Publisher | None:
        """The publisher that a run's `policy_loss` config asks for; None without `record_dir`."""
        if policy_loss is None or not policy_loss.get("record_dir"):
            return None
        ratio_channel = RatioChannel.from_dict(dict(policy_loss.get("rovr") or {}))
        return cls(Path(policy_loss.get("record_dir")), policy_loss.get("record_every") or 1, ratio_channel)

    def __init__(self, directory: Path, every: int, ratio_channel: RatioChannel) -> None:
        self.directory, self.every, self.off = directory, every, False
        self.settings = {"engine": "verl", "ratio_channel": ratio_channel.to_dict()}

    def publish(
        self, step: int, result: Explanation, uids: Sequence[Any] | np.ndarray, calls: Mapping[str, float] | None = None
    ) -> None:
        """Opens the step for the ranks, if it is one of every `every`-th; closes the last one if not.

        `calls`: what asking a server for the rewards took.
        Records are an extra: whatever goes wrong with them is reported, and the run goes on without.
        """
        if self.off:
            return
        try:
            if (step - 1) % self.every:
                _write(self.directory / "current", "")
            else:
                self._open(step, result, uids, calls or {})
        except Exception as error:  # a full disk, a trainer without TransferQueue, ...
            self.off = True
            logger.warning(f"records in {self.directory} end before step {step}: {type(error).__name__}: {error}")

    def _open(
        self, step: int, result: Explanation, uids: Sequence[Any] | np.ndarray, calls: Mapping[str, float]
    ) -> None:
        groups = list(dict.fromkeys(uids))
        rows = {
            "step": step,
            "settings": self.settings,
            "notes": {**result.notes, **({CALLS: dict(calls)} if calls else {})},
            "references": {
                str(uid): float(reference)
                for uid, reference, scored in zip(groups, result.reference, result.finite_size, strict=True)
                if scored >= 2
            },
            "responses": _responses(set(groups)),
        }
        _write(_step_directory(self.directory, step) / "rows.json", json.dumps(rows))
        _write(self.directory / "current", str(step))


class _Rank:
    """What this process has recorded so far."""

    step: str = ""
    calls: int = 0
    rows: int = 0
    bytes: int = 0


def record(
    config: Any,
    log_ratios: Tensor,
    mask: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    clip: tuple[float, float],
) -> None:
    """Keeps one micro-batch, if `config.policy_loss` has a `record_dir`, the step is being recorded and space is left."""
    directory = config.policy_loss.get("record_dir")
    if not directory:
        return
    try:
        step = (Path(directory) / "current").read_text()
    except OSError:
        step = ""
    if step != _Rank.step:
        _Rank.step, _Rank.calls, _Rank.rows = step, 0, 0
    if step and _Rank.bytes <= config.policy_loss.get("record_megabytes", 512.0) * MEGABYTE:
        _keep(_step_directory(Path(directory), int(step)), config, log_ratios, mask, old_log_prob, advantages, clip)
    _Rank.calls += 1
    _Rank.rows += len(mask)


def _keep(
    directory: Path,
    config: Any,
    log_ratios: Tensor,
    mask: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    clip: tuple[float, float],
) -> None:
    info = config.global_batch_info
    rows_per_update = (info.get("global_batch_size") or len(mask)) // (info.get("dp_size") or 1)
    valid = mask.cpu().numpy()
    scored = np.flatnonzero(valid.any(-1))
    path = directory / f"rank_{os.environ.get('RANK', '0')}_{_Rank.calls:03d}.npz"
    old, ratios = old_log_prob.detach().float().cpu().numpy(), log_ratios.detach().cpu().numpy()
    advantage = advantages.detach().float().cpu().numpy()
    try:
        np.savez_compressed(
            path,
            fingerprint=np.array([fingerprint(old[i]) for i in scored], dtype="U16"),
            update=(_Rank.rows + scored) // max(rows_per_update, 1),
            advantage=np.array([advantage[i][valid[i]][0] for i in scored], dtype=np.float64),
            length=valid[scored].sum(-1),
            log_ratios=ratios[scored][valid[scored]],
            clip=np.array(clip),
        )
        _Rank.bytes += path.stat().st_size
    except OSError as error:
        logger.warning(f"cannot keep the log-ratios in {path}: {error}; this micro-batch is not recorded")


def _responses(uids: set[Any]) -> list[dict[str, Any]]:
    """Key, reward and fingerprint of the batch's responses, from the queue that verl's driver and workers share."""
    import transfer_queue

    found = transfer_queue.kv_list("train").get("train", {})
    keys = [key for key in found if key not in uids and key.rsplit("_", 2)[0] in uids]
    if not keys:
        return []
    data = transfer_queue.kv_batch_get(keys=keys, partition_id="train", select_fields=["old_log_probs", "rm_scores"])
    old, scores = data["old_log_probs"].unbind(0), data["rm_scores"].unbind(0)
    return [
        {
            "key": key,
            "reward": float(score.double().sum()),
            "fingerprint": fingerprint(o.detach().float().cpu().numpy()),
        }
        for key, o, score in zip(keys, old, scores, strict=True)
    ]


def _step_directory(directory: Path, step: int) -> Path:
    return directory / f"step_{step:06d}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
