"""The check of a label, our numbers beside the published ones, and docs/reproduce.md, the page of all of them.

The page has every label with its command, minutes, output and verdict; `rovrl paper check --markdown` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError
from rovrl_paper.paper.item import Check, Item
from rovrl_paper.paper.registry import ITEMS
from rovrl_paper.paper.store import experiment, load, stem


def result(item: Item, out: Path) -> dict[str, Any]:
    """The check of one label; `agrees` is None for what needs GPUs or was not run."""
    base = {"id": item.label, "title": item.title, "stand_in": item.stand_in}
    if item.experiment is None:
        return base | {"agrees": None, "status": "needs GPUs", "published": list(item.published), "cells": []}
    try:
        rows, meta = load(item.experiment, out)
        module = experiment(item.experiment)
        cells: list[Check] = module.checks(rows)[item.label]
        findings = getattr(module, "findings", lambda rows: {})(rows).get(item.label, [])
    except RovrlError as error:
        return base | {"agrees": None, "status": str(error), "cells": []}
    except (KeyError, TypeError, ValueError) as error:
        sentence = f"the rows of {item.experiment} in {out} are not those of this version ({error!r}); run it again"
        return base | {"agrees": None, "status": sentence, "cells": []}
    agrees = bool(cells) and all(c.agrees for c in cells)
    status = "smoke setting" if meta["smoke"] else "full setting"
    found = {"agrees": agrees, "status": status, "command": meta["command"], "findings": findings}
    return base | found | {"cells": [asdict(c) for c in cells]}


HEAD = """\
# The paper, reproduced

Written by `rovrl paper check --markdown docs/reproduce.md` from the committed results; do not edit.

Each label of the paper is one command. It writes rows (CSV), a meta file (setting, seed, versions, seconds), Markdown and
LaTeX tables, and figures as SVG and PNG into `{out}`; `--smoke` takes seconds instead. `rovrl paper check` prints
every number of ours beside the published one, `rovrl paper draw LABEL` makes tables and figures again from the rows, and
`rovrl report` puts all of it into one HTML file.

**What "agrees" means.** Simulations: every published cell within 3.5 Monte Carlo errors of both (the authors' random
stream is not known). Reward contamination and token stress: the paper's saved records are not public, so ours are streams
drawn to match its published facts, within 10 % where a number follows from those facts, by direction where it does not.
Training: another model and task, by direction. Every such stand-in says so below. What needs GPUs is listed with its
published numbers and the recipe that would make it; nothing is invented.
"""


def reproduce_page(results: Sequence[dict[str, Any]], out: Path) -> str:
    """The whole page, in the order of the registry."""
    lines = ["| label | command | minutes | output | agrees |", "|---|---|---|---|---|"]
    lines += [_line(r, ITEMS[r["id"]], out) for r in results if ITEMS[r["id"]].experiment]
    parts = [HEAD.format(out=out), "\n".join(lines), _stand_ins(results), _notes(results), _gpus(results)]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _line(r: dict[str, Any], item: Item, out: Path) -> str:
    output = f"`{out}/{item.experiment}/{stem(item.label)}.*`"
    return f"| `{item.label}` | `rovrl paper run {item.label}` | {item.minutes:g} | {output} | {verdict(r)} |"


def verdict(r: dict[str, Any]) -> str:
    """In words: yes, no with the number of cells, or why there is none."""
    if r["agrees"] is None:
        return "needs GPUs" if r["status"] == "needs GPUs" else "not run"
    cells, good = len(r["cells"]), sum(c["agrees"] for c in r["cells"])
    how = " (smoke setting)" if r["status"] == "smoke setting" else ""
    return (f"yes, {cells} of {cells}" if r["agrees"] else f"**no**, {good} of {cells}") + how


def _stand_ins(results: Sequence[dict[str, Any]]) -> str:
    found: dict[str, list[str]] = {}
    for r in results:
        if r["stand_in"]:
            found.setdefault(r["stand_in"], []).append(f"`{r['id']}`")
    lines = [f"- {', '.join(labels)}: {what}." for what, labels in found.items()]
    return "## Stand-ins\n\n" + "\n".join(lines) if lines else ""


def _notes(results: Sequence[dict[str, Any]]) -> str:
    """What disagrees, every note of a check once, and the experiments' own findings."""
    lines = [
        f"- `{r['id']}`, {c['cell']}: ours {c['ours']:.4g}, published {c['published']:.4g}: **disagrees**."
        for r in results
        for c in r["cells"]
        if not c["agrees"]
    ]
    noted: dict[str, str] = {}
    for r in results:
        for c in r["cells"]:
            if c["note"]:
                noted.setdefault(c["note"], f"- `{r['id']}`, {c['cell']}: {c['note']}.")
    lines += noted.values()
    lines += [f"- `{r['id']}`: {sentence}" for r in results for sentence in r.get("findings", [])]
    return "## What a reader should know\n\n" + "\n".join(lines) if lines else ""


def _gpus(results: Sequence[dict[str, Any]]) -> str:
    lines = [
        f"- `{i.label}` ({i.title}): published {'; '.join(i.published)}. Would be made by {i.recipe}."
        for r in results
        if (i := ITEMS[r["id"]]).experiment is None
    ]
    return "## What needs GPUs\n\n" + "\n".join(lines) if lines else ""
