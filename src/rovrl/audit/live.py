"""The audit of a run that goes on: made again as it grows, told where it is watched, and ending it at a finding that was named.

One mechanism with three fronts: `rovrl audit --follow`, TRL's callback (`callback`) and verl's trainer (`verl`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rovrl.audit.judge.findings import CODES
from rovrl.errors import RovrlError

if TYPE_CHECKING:  # an audit loads what every process of an engine need not
    from rovrl.audit.result import AuditResult

logger = logging.getLogger("rovrl.audit")


class LiveAudit:
    """The audit of one run, made again when asked; `result` is the last one, `out` is where its page is (None: nowhere).

    Such signals describe what has happened; they do not predict.
    """

    def __init__(
        self, path: Path, out: Path | None, stop_on: str | Iterable[str] = (), groups: int = 5000, **options: Any
    ) -> None:
        self.path, self.out, self.groups = path, out, groups
        self.stop_on = stop_codes(stop_on)
        self.options = options
        """For `rovrl.audit.audit`: group_size, threshold, ..."""
        self.result: AuditResult | None = None

    @property
    def found(self) -> set[str]:
        """The codes of the last audit's findings."""
        return {finding.code for finding in self.result.findings} if self.result else set()

    def again(self) -> AuditResult:
        """A new audit of what has been saved so far, with its page."""
        from rovrl.audit.run import audit

        self.result = None
        self.result = audit(self.path, **self.options)
        if self.out is not None:
            self.result.write(self.out, self.groups)
        return self.result

    def in_training(self, quiet: bool = False) -> dict[str, float]:
        """The numbers of a new audit for the run's tracker; {} and a warning where none can be made: the training goes on."""
        try:
            result = self.again()
        except Exception as error:  # an extra, which must not end a training
            what = error if isinstance(error, RovrlError) else f"{type(error).__name__}: {error}"
            logger.log(logging.INFO if quiet else logging.WARNING, "no audit of this run: %s", what)
            return {}
        level = logging.WARNING if result.status else logging.INFO
        logger.log(level, "rovrl audit: %s %s", result.verdict, self.out / "audit.html" if self.out else "")
        return metrics(result)

    def ends(self, step: int) -> bool:
        """Whether the last audit has a finding that ends the training, which is logged."""
        if named := sorted(self.found & self.stop_on):
            logger.warning("rovrl audit ends the training at step %d: %s", step, ", ".join(named))
        return bool(named)


def stop_codes(stop_on: str | Iterable[str]) -> frozenset[str]:
    """The findings that end a training; a ValueError for a word that names none."""
    stops = (stop_on,) if isinstance(stop_on, str) else tuple(stop_on)
    unknown = sorted(set(stops) - set(CODES))
    if unknown:
        raise ValueError(f"stop_on names no finding: {', '.join(unknown)}; the codes are {', '.join(CODES)}")
    return frozenset(stops)


def metrics(result: AuditResult) -> dict[str, float]:
    """The audit in a few numbers for a tracker, by name: totals of the run so far, and how many findings there are."""
    s, t = result.summary, result.description.totals
    numbers = {
        "findings": float(len(result.findings)),
        "contrast_lost": s.contrast_lost,
        "dominated": s.dominated_groups / s.groups,
        "tied": s.tied_groups / s.groups,
        "nonfinite": s.nonfinite_rewards / s.responses,
        "sign_changes": s.sign_change_share,
        "length_reward": t.length_reward,
        "copies": t.copies,
        "truncated": t.truncated,
    }
    found = {f"finding/{finding.code}": finding.value for finding in result.findings}
    return {f"audit/{name}": float(value) for name, value in (numbers | found).items() if value is not None}


def follow(
    live: LiveAudit,
    *,
    every: float = 30.0,
    say: Callable[[str], None] = print,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """The exit status after an audit whenever the run's files have changed, until Ctrl-C or a finding that ends it.

    The status is 1 for a finding of `stop_on`, else that of the last audit. A RovrlError if there are several runs.
    """
    from rovrl.audit.run import SeveralRuns

    seen, known, status = None, set(), 0
    try:
        while True:
            now = fingerprint(live.path, live.out)
            if now != seen:
                seen = now
                try:
                    result = live.again()
                except SeveralRuns as error:  # one page and one status cannot be those of all
                    raise RovrlError(f"{error.held}, and --follow follows one: name it") from error
                except RovrlError as error:  # a run that has not written its first rollouts yet
                    say(f"nothing to audit yet: {error}")
                else:
                    _tell(result, live.out, known, say)
                    status, known = result.status, live.found
                    if named := sorted(live.stop_on & known):
                        say(f"stopped: {', '.join(named)}")
                        return 1
            sleep(every)
    except KeyboardInterrupt:
        return status


def _tell(result: AuditResult, out: Path | None, known: set[str], say: Callable[[str], None]) -> None:
    """The last audit in a line, and what is new or gone since the one before."""
    from rovrl.audit.show.summary import counted, mean_reward

    s, where = result.summary, f" {out / 'audit.html'}" if out is not None else ""
    say(f"step {s.last_step}: {counted(s.groups, 'group')}, mean reward {mean_reward(s)}. {result.verdict}{where}")
    for finding in result.findings:
        if finding.code not in known:
            say(f"  new: [{finding.code}] {finding.sentence}. {finding.advice[0].upper()}{finding.advice[1:]}.")
    for code in sorted(known - {finding.code for finding in result.findings}):
        say(f"  gone: [{code}]")


def fingerprint(path: Path, out: Path | None) -> dict[str, tuple[int, int]]:
    """Size and time of every file of the run, without the audit's own; {} while there is none.

    Both places are resolved, since `out` may be another spelling of a folder of the run. Only the two files that are written
    there are left out: `out` may also be the run's own folder.
    """
    from rovrl.audit.show.page import PAGES

    path, own = path.resolve(), set() if out is None else {out.resolve() / name for name in PAGES}
    files = [path] if path.is_file() else path.rglob("*")
    found = {}
    for file in files:
        try:
            if file.is_file() and file not in own:
                stat = file.stat()
                found[str(file)] = (stat.st_size, stat.st_mtime_ns)
        except OSError:  # it went away between the listing and the look
            continue
    return found
