"""The check of a label: our numbers beside the published ones, as plain data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError
from rovrl_paper.paper.item import Check, Item
from rovrl_paper.paper.store import experiment, load


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
