"""`audit(path)`: find the reader, read, group, compute, judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.judge.certificate import certificate
from rovrl.audit.judge.evidence import Evidence
from rovrl.audit.judge.expect import Expectations
from rovrl.audit.judge.findings import findings, thresholds
from rovrl.audit.judge.questions import facts, questions
from rovrl.audit.judge.totals import step_table, summarise
from rovrl.audit.judge.trained import advantages_agree_with, as_recorded, lost_as_logged
from rovrl.audit.measure.ratios import ratio_table
from rovrl.audit.measure.statistics import GroupTable, group_table
from rovrl.audit.read.find import find_reader, find_runs
from rovrl.audit.read.grouping import check_group_size, grouped, mixed_prompts
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.records import RecordReader, server_notes
from rovrl.audit.read.rollouts import Rollouts, load
from rovrl.audit.read.rows import STATISTICS, Columns, Reader
from rovrl.audit.result import AuditResult
from rovrl.config import GRPO_EPSILON, RatioChannel, RewardChannel
from rovrl.errors import RovrlError
from rovrl.output.progress import Progress, silent


class SeveralRuns(RovrlError):
    """Raised where one run is asked for and the path holds several; `held` says which, for a sentence of one's own."""

    def __init__(self, path: Path, runs: list[Path]) -> None:
        names = ", ".join(str(run.relative_to(path)) for run in runs[:5]) + (", ..." if len(runs) > 5 else "")
        self.held = f"{path} holds {len(runs)} runs ({names})"
        super().__init__(f"{self.held}: audit one of them, or all with rovrl.audit.audit_all")


def audit(
    path: str | Path,
    *,
    format: str = "auto",
    columns: Columns | Mapping[str, Any] | None = None,
    group_size: int | None = None,
    keep_evaluation: bool = False,
    reward_channel: RewardChannel | None = None,
    ratio_channel: RatioChannel | None = None,
    clip: tuple[float, float] | None = None,
    threshold: Mapping[str, float] | None = None,
    expect: Expectations | Iterable[str] = (),
    progress: Progress = silent,
) -> AuditResult:
    """What the group statistics did to the run whose rollouts are saved at `path`.

    `format` is "auto" or a name of READERS; `columns` names columns of a generic table; `group_size` cuts runs of equal
    prompts where no group ids were saved; `clip` is (low, high) of the weight's band; `expect` says what the reward is meant
    to be, in words as "rare-bonus" or "range=0:1". Without a `reward_channel` credit is measured by the settings and
    blocks that records hold, else by the paper's. A RovrlError if nothing is readable.
    """
    path = Path(path)
    limit = thresholds(threshold)
    check_group_size(group_size)
    columns = Columns.of(columns)
    runs = find_runs(path, format, columns)
    if len(runs) > 1:
        raise SeveralRuns(path, runs)
    reader, files = find_reader(runs[0], format, columns)
    reader.keep_evaluation = keep_evaluation
    notes = Notes()
    rollouts = load(reader, files, STATISTICS | ({"advantage"} if reader.logs_advantages else set()), notes, progress)
    rollouts = grouped(rollouts, reader, path, group_size, keep_evaluation)
    if not rollouts.groups:
        told = "; ".join(note.sentence for note in notes.all()[:3])
        raise RovrlError(f"nothing readable in {path}: {told or 'the files hold no rows'}")
    return judge(
        reader,
        rollouts,
        path=path,
        limit=limit,
        asked=frozenset(threshold or ()),
        expect=expect if isinstance(expect, Expectations) else Expectations.of(expect),
        reward_channel=reward_channel,
        ratio_channel=ratio_channel or RatioChannel(),
        clip=clip,
        progress=progress,
    )


def audit_all(path: str | Path, **options: Any) -> dict[str, AuditResult | RovrlError]:
    """Every run at `path` by its name below it, each with its own result, or with the reason why there is none.

    `options` are those of `audit`. A path that holds a single run gives one entry, named ".".
    """
    path, columns = Path(path), Columns.of(options.get("columns"))
    results: dict[str, AuditResult | RovrlError] = {}
    for run in find_runs(path, options.get("format", "auto"), columns):
        try:
            results[str(run.relative_to(path))] = audit(run, **options)
        except RovrlError as error:
            results[str(run.relative_to(path))] = error
    return results


def judge(
    reader: Reader,
    rollouts: Rollouts,
    *,
    path: Path,
    limit: dict[str, float],
    asked: frozenset[str],
    expect: Expectations,
    reward_channel: RewardChannel | None,
    ratio_channel: RatioChannel,
    clip: tuple[float, float] | None,
    progress: Progress,
) -> AuditResult:
    """The result for rollouts that are read and grouped; without a `reward_channel`, by the settings that the run logged."""
    notes, files = rollouts.notes, rollouts.files
    trained = as_recorded(reader, rollouts)
    own = trained.by_step if reward_channel is None else {}
    reward_channel = reward_channel or trained.channel or RewardChannel()
    table, settings = group_table(rollouts, reward_channel, progress, own)
    ratios = None
    if files and reader.holds("tokens", files[0]):
        ratios = ratio_table(reader, rollouts, _grpo(rollouts, table), ratio_channel, clip, notes, progress)
    mixed = mixed_prompts(reader, files)
    if trained.method is None:
        trained = replace(trained, method=advantages_agree_with(rollouts, table, settings))
    table.lost_own = lost_as_logged(rollouts, table, trained.by_step or settings, trained)
    by_prompt = reader.by_runs or reader.repeats
    evidence = Evidence(rollouts, table, ratios, mixed, trained, by_prompt, expect, asked)
    decisions = questions(evidence)
    servers = server_notes(files) if isinstance(reader, RecordReader) else []
    return AuditResult(
        path=path,
        kind=reader.name,
        files=files,
        summary=summarise(rollouts, table, ratios, evidence),
        findings=findings(evidence, limit),
        questions=decisions,
        notes=[*notes.all(), *decisions, *facts(evidence), *servers],
        certificate=certificate(table, reward_channel),
        thresholds=limit,
        groups=table,
        steps=step_table(rollouts, table, ratios),
        ratios=ratios,
        reward_channel=reward_channel,
        ratio_channel=ratio_channel,
        settings=settings,
        evidence=evidence,
        rollouts=rollouts,
        reader=reader,
    )


def _grpo(rollouts: Rollouts, table: GroupTable) -> NDArray[np.float64]:
    """GRPO's advantages of all responses; 0 in tied and single groups and without a reward."""
    size = rollouts.size
    with np.errstate(invalid="ignore"):
        residual = rollouts.reward - np.repeat(table.mean, size)
        advantage = residual / (np.repeat(table.deviation, size) + GRPO_EPSILON)
    return np.where(np.repeat(table.untied, size), np.nan_to_num(advantage), 0.0)


__all__ = ["SeveralRuns", "audit", "audit_all", "judge"]
