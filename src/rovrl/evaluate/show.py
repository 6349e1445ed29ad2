"""Results for a reader: tables in the terminal."""

from __future__ import annotations

from typing import Any

from rovrl.errors import require


def results_table(results: dict[str, Any]) -> None:
    """Prints each suite and metric: mean ± sd over runs, the interval over problems, pass@k, the share of cut-off responses."""
    table = _table("suite", "problems", "metric", "mean ± sd over runs", "95 % over problems", "samples", "cut off")
    for suite, entry in results["suites"].items():
        for metric, found in entry["metrics"].items():
            spread = f" ± {found['sd']:.4f}" if found["sd"] is not None else ""
            extra = ", ".join(f"{key} {found[key]:.4f}" for key in found if key.startswith(("pass@", "mean@")))
            low, high = found["interval"]
            table.add_row(
                suite,
                str(entry["problems"]),
                metric,
                f"{found['mean']:.4f}{spread}",
                f"[{low:.4f}, {high:.4f}]",
                extra,
                f"{100 * entry['cut_off']:.1f} %",
            )
    _print(table)


def comparison_table(result: dict[str, Any]) -> None:
    """Prints B - A for each suite and metric."""
    table = _table("suite", "metric", "problems", "A", "B", "B - A", "95 % paired", "B better / worse / equal")
    for suite, metrics in result["suites"].items():
        for metric, found in metrics.items():
            low, high = found["interval"]
            table.add_row(
                suite,
                metric,
                str(found["problems"]),
                f"{found['first']:.4f}",
                f"{found['second']:.4f}",
                f"{found['difference']:+.4f}",
                f"[{low:+.4f}, {high:+.4f}]",
                f"{found['better']} / {found['worse']} / {found['equal']}",
            )
    _print(table)
    print(f"A = {result['first']}\nB = {result['second']}")


def gold_table(path: str, lines: list[dict[str, Any]]) -> None:
    """Prints each check of a file, then every exception with its reason."""
    table = _table(path, "right", "asked", "", "per second")
    for line in lines:
        share = 100 * line["right"] / line["asked"] if line["asked"] else 100.0
        rate = line["asked"] / line["seconds"] if line["seconds"] else 0.0
        table.add_row(line["check"], str(line["right"]), str(line["asked"]), f"{share:.2f} %", f"{rate:.0f}")
    _print(table)
    for line in lines:
        for name, answer, reason in line["exceptions"]:
            print(f"  {line['check']}: not {name} ({answer!r}): {reason}")


def _table(*columns: str) -> Any:
    table = require("rich.table", extra="tasks").Table(box=require("rich.box", extra="tasks").SIMPLE)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
    return table


def _print(table: Any) -> None:
    console = require("rich.console", extra="tasks").Console()
    if not console.is_terminal:
        console.width = 140  # a file or a pipe has no width of its own
    console.print(table)
