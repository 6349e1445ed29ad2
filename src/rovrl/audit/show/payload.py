"""An audit as one JSON document: what audit.json holds and what the page shows, number for number."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

import rovrl
from rovrl.audit.measure.ratios import weights
from rovrl.audit.read.rows import Chunk, Notes
from rovrl.audit.result import AuditResult, plain
from rovrl.config import RatioChannel, RewardChannel
from rovrl.credit import GRPO_EPSILON
from rovrl.loss import CLIP_HIGH, CLIP_LOW
from rovrl.partition import partition
from rovrl.robust.correction import quantile_grid
from rovrl.robust.location import scale_source
from rovrl.weight import token_scale

FORMAT = 1
TEXT_BUDGET = 6_000_000
"""Characters of prompts and completions in one document; the worst groups come first."""
TEXT_LIMIT = 6_000
"""Characters of one text; the rest is cut, and the cut is said."""
TOKEN_BUDGET = 400_000
"""Token log-ratios in one document."""
RATIO_COLUMNS = ("mean", "deviation", "median", "reference", "nu", "lost", "lost_credit", "shift")


def payload(result: AuditResult, groups: int) -> dict[str, Any]:
    """The document: verdict, summary, steps, settings, notes, certificate, and the `groups` worst groups."""
    chosen = result.worst(groups)
    settings, which = _settings(result, chosen)
    details = _details(result, chosen)
    rows = []
    for group in chosen.tolist():
        row = _group(result, group)
        row["settings"] = which[group]
        row.update(details.get(group, {}))
        rows.append(row)
    return plain(
        {
            "format": FORMAT,
            "rovrl": rovrl.__version__,
            "source": _source(result),
            "status": result.status,
            "verdict": result.verdict,
            "findings": [asdict(finding) for finding in result.findings],
            "thresholds": result.thresholds,
            "summary": asdict(result.summary),
            "notes": [asdict(note) for note in result.notes],
            "certificate": result.certificate.to_dict() if result.certificate else None,
            "steps": result.steps,
            "settings": settings,
            "ratio_settings": _ratio_settings(result.ratio_channel),
            "groups_total": result.summary.groups,
            "groups": rows,
        }
    )


def _source(result: AuditResult) -> dict[str, Any]:
    reader = result.reader
    names = {"kind": reader.name, "title": reader.title, "names_method": reader.method is not None}
    return {"path": result.path, "files": len(result.files), **names}


def _group(result: AuditResult, group: int) -> dict[str, Any]:
    table, rollouts = result.groups, result.rollouts
    row: dict[str, Any] = {
        "id": group,
        "step": int(rollouts.step[group]),
        "label": _cut(rollouts.label[group].as_py(), 200) if not rollouts.by_runs else "",
        "rewards": result.rewards(group),
        "size": int(table.size[group]),
        "finite": int(table.finite[group]),
        "tied": bool(table.tied[group]),
        "single": bool(table.single[group]),
        "fallback": bool(table.fallback[group]),
        "flips": int(table.flips[group]),
        "dominating": result.dominating(group),
    }
    row.update({name: float(getattr(table, name)[group]) for name in RATIO_COLUMNS})
    span = rollouts.rows_of(group)
    if rollouts.advantage is not None:
        row["logged"] = rollouts.advantage[span]
    if rollouts.planted is not None:
        row["planted"] = np.flatnonzero(rollouts.planted[span])
    return row


def _settings(result: AuditResult, chosen: np.ndarray) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The distinct settings in use, with the partitions for every size that occurs, and which group uses which."""
    finite, out = result.groups.finite[chosen], result.groups.dominating[chosen]
    sizes = np.unique(np.concatenate([finite, finite - 1, finite - out])).tolist()  # the page also leaves rewards out
    distinct: dict[RewardChannel, int] = {}
    which = {}
    for group in chosen.tolist():
        channel = result.channels.get(-1) or result.channels[int(result.rollouts.step[group])]
        which[group] = distinct.setdefault(channel, len(distinct))
    return [_one_setting(channel, sizes) for channel in distinct], which


def _one_setting(channel: RewardChannel, sizes: list[int]) -> dict[str, Any]:
    blocks = {n: partition(n, channel)[0] for n in sizes if n >= 2}
    pilot = {n: channel.scale_source for n, b in blocks.items() if scale_source(b, channel) == "pilot"}
    return channel.to_dict() | {
        "blocks": {n: b.members for n, b in blocks.items()},
        "nu": pilot,
        "grid": _grid(channel.num_levels),
        "grpo_epsilon": GRPO_EPSILON,
    }


def _ratio_settings(channel: RatioChannel) -> dict[str, Any]:
    return channel.to_dict() | {"grid": _grid(channel.num_levels), "clip_low": CLIP_LOW, "clip_high": CLIP_HIGH}


def _grid(num_levels: int) -> dict[str, Any]:
    grid = quantile_grid(num_levels)
    return {"offsets": grid.offsets.tolist(), "density": grid.density}


def _details(result: AuditResult, chosen: np.ndarray) -> dict[int, dict[str, Any]]:
    """Prompt, completions and token log-ratios of the worst groups, read again from the files, within the budgets."""
    rollouts = result.rollouts
    by_file: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for group in chosen.tolist():
        span = rollouts.rows_of(group)
        for place, (file, row) in enumerate(
            zip(rollouts.file[span].tolist(), rollouts.row[span].tolist(), strict=True)
        ):
            by_file[file][row] = (group, place)
    found: dict[int, dict[str, Any]] = {}
    if not rollouts.files:
        return found
    want = frozenset({"reward", "text", "advantage"} | ({"tokens"} if result.ratios is not None else set()))
    for file, rows in sorted(by_file.items()):
        _read_file(result, file, rows, want, found)
    _keep_within_budget(found, chosen.tolist())
    _finish_tokens(found, result.ratio_channel)
    return found


def _read_file(
    result: AuditResult,
    file: int,
    rows: dict[int, tuple[int, int]],
    want: frozenset[str],
    found: dict[int, dict[str, Any]],
) -> None:
    several = result.reader.row_per_update and "tokens" in want  # the later rows are known by what they say
    names: dict[object, tuple[int, int]] = {}
    for chunk in result.reader.chunks(result.rollouts.files[file], want, Notes()):
        for k, row in enumerate(chunk.row.tolist()):
            at = rows.get(row)
            if at is not None:
                _add_texts(result, chunk, k, at, found)
                if several:
                    names[_name(chunk, k)] = at
            _add_tokens(chunk, k, at or (names.get(_name(chunk, k)) if several else None), found)


def _add_texts(
    result: AuditResult, chunk: Chunk, k: int, at: tuple[int, int], found: dict[int, dict[str, Any]]
) -> None:
    group, response = at
    empty = {"prompt": None, "completions": [None] * int(result.groups.size[group])}
    entry = found.setdefault(group, empty)
    if chunk.prompt is not None and entry["prompt"] is None:
        entry["prompt"] = _cut(chunk.prompt[k].as_py(), TEXT_LIMIT)
    if chunk.completion is not None:
        entry["completions"][response] = _cut(chunk.completion[k].as_py(), TEXT_LIMIT)


def _name(chunk: Chunk, k: int) -> object:
    return (int(chunk.step[k]), chunk.group[k].as_py(), chunk.completion[k].as_py(), float(chunk.reward[k]))


def _add_tokens(chunk: Chunk, k: int, at: tuple[int, int] | None, found: dict[int, dict[str, Any]]) -> None:
    if at is None or chunk.log_ratios is None or at[0] not in found:
        return
    row = chunk.log_ratios[k]
    if row is None:
        return
    row = row[np.isfinite(row)]
    clip = chunk.clip[k].tolist() if chunk.clip is not None else [CLIP_LOW, CLIP_HIGH]
    advantage = float(chunk.advantage[k]) if chunk.advantage is not None else None
    found[at[0]].setdefault("tokens", []).append(
        {"response": at[1], "values": row, "clip": clip, "advantage": advantage}
    )


def _keep_within_budget(found: dict[int, dict[str, Any]], order: list[int]) -> None:
    """Texts and tokens of the worst groups first; beyond the budget a group has its numbers only."""
    text, tokens = 0, 0
    for group in order:
        entry = found.get(group)
        if entry is None:
            continue
        text += len(entry["prompt"] or "") + sum(len(c or "") for c in entry["completions"])
        tokens += sum(len(row["values"]) for row in entry.get("tokens", []))
        if text > TEXT_BUDGET:
            del entry["prompt"], entry["completions"]
        if tokens > TOKEN_BUDGET:
            entry.pop("tokens", None)


def _finish_tokens(found: dict[int, dict[str, Any]], channel: RatioChannel) -> None:
    """Adds mean, SoftRoVR and unit to every row of token log-ratios, computed from the digits that are written."""
    rows = [row for entry in found.values() for row in entry.get("tokens", [])]
    values = [np.array([float(f"{v:.9g}") for v in row["values"].tolist()]) for row in rows]
    mean, soft = weights(values, channel)
    for row, tokens, m, s in zip(rows, values, mean.tolist(), soft.tolist(), strict=True):
        row.update(values=tokens, mean=m, soft=s, unit=_unit(tokens, channel))


def _unit(tokens: np.ndarray, channel: RatioChannel) -> float:
    if channel.units != "robust" or not len(tokens):
        return 1.0
    x = torch.from_numpy(tokens)[None]
    return float(token_scale(x, torch.ones_like(x, dtype=torch.bool), channel))


def _cut(text: str | None, limit: int) -> str | None:
    if text is None or len(text) <= limit:
        return text
    return text[:limit] + f" … [{len(text) - limit:,} more characters were cut]"
