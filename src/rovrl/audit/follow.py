"""`rovrl audit --follow DIR`: the audit of a run that is still going on, made again when its files have grown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rovrl.audit.result import AuditResult
from rovrl.audit.run import SeveralRuns, audit
from rovrl.audit.show.page import PAGES
from rovrl.audit.show.summary import counted, mean_reward
from rovrl.errors import RovrlError

Said = Callable[[str], None]


def follow(
    path: Path,
    out: Path | None,
    *,
    every: float = 30.0,
    groups: int = 5000,
    stop_on: Iterable[str] = (),
    say: Said = print,
    sleep: Callable[[float], None] = time.sleep,
    **options: Any,
) -> int:
    """The exit status after auditing `path` whenever its files have changed, until Ctrl-C or a finding of `stop_on`.

    Writes the page into `out` each time (None: no page). The status is 1 for a code of `stop_on`, else that of the last audit.
    A RovrlError if `path` holds several runs.
    Such signals describe what has happened; they do not predict.
    """
    stops, seen, known, status = set(stop_on), None, set(), 0
    try:
        while True:
            now = fingerprint(path, out)
            if now != seen:
                seen = now
                result = _attempt(path, say, options)
                if result is not None:
                    status, known = result.status, _tell(result, known, out, groups, say)
                    if stops & known:
                        say(f"stopped: {', '.join(sorted(stops & known))}")
                        return 1
            sleep(every)
    except KeyboardInterrupt:
        return status


def fingerprint(path: Path, out: Path | None) -> dict[str, tuple[int, int]]:
    """Size and time of every file of the run, without the audit's own; {} while there is none.

    Both places are resolved, since `out` may be another spelling of a folder of the run. Only the two files that are written
    there are left out: `out` may also be the run's own folder.
    """
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


def _attempt(path: Path, say: Said, options: dict[str, Any]) -> AuditResult | None:
    try:
        return audit(path, **options)
    except SeveralRuns as error:  # one page and one status cannot be those of all
        raise RovrlError(f"{error.held}, and --follow follows one: name it") from error
    except RovrlError as error:  # a run that has not written its first rollouts yet
        say(f"nothing to audit yet: {error}")
        return None


def _tell(result: AuditResult, known: set[str], out: Path | None, groups: int, say: Said) -> set[str]:
    codes = {finding.code for finding in result.findings}
    where = f" {result.write(out, groups)[0]}" if out is not None else ""
    s = result.summary
    say(f"step {s.last_step}: {counted(s.groups, 'group')}, mean reward {mean_reward(s)}. {result.verdict}{where}")
    for finding in result.findings:
        if finding.code not in known:
            say(f"  new: [{finding.code}] {finding.sentence}. {finding.advice[0].upper()}{finding.advice[1:]}.")
    for code in sorted(known - codes):
        say(f"  gone: [{code}]")
    return codes
