"""The house in figures (`make house`): what is counted, and how. test_structure.py takes its rules from here."""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES, MOST_FILES = 400, 15
"""Of a file, in a folder."""
TUNED = ("faults/", "robust/outliers", "robust/units", "robust/spread", "scales.py")
"""Where numbers at module level are tuned ones: they decide what a fault is."""


def module_name(path: Path) -> str:
    """rovrl.robust.solve for src/rovrl/robust/solve.py."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in FILES}


def imports(path: Path, as_text: bool = True) -> Iterator[str]:
    """Every module of ours that a file imports, at its head or in a function; `as_text`: also those it names for loading."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []  # annotations alone: never imported
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else str(node.module)
        elif as_text and isinstance(node, ast.Constant) and str(node.value).startswith(("rovrl.", "rovrl_paper.")):
            yield str(node.value)


def graph(as_text: bool = True) -> dict[str, set[str]]:
    """module -> the other modules of ours that it imports (or names)."""
    found = {name: set(imports(path, as_text)) for name, path in MODULES.items()}
    return {name: (others & MODULES.keys()) - {name} for name, others in found.items()}


def package(module: str) -> str:
    """The folder in which a module lies."""
    return ".".join(MODULES[module].relative_to(SOURCE).parts[:-1])


def mutual() -> list[tuple[str, str]]:
    """Pairs of packages, neither inside the other, with imports both ways. What the command line loads by name is none."""
    edges = {(package(name), package(other)) for name, others in graph(False).items() for other in others}
    pairs = combinations(sorted({name for edge in edges for name in edge}), 2)
    apart = ((a, b) for a, b in pairs if not f"{b}.".startswith(f"{a}."))
    return [(a, b) for a, b in apart if (a, b) in edges and (b, a) in edges]


def private_once(tree: ast.Module) -> int:
    """Functions and classes of a module that begin with one underscore and are named at most once more in their file."""
    named = [
        n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(tree) if isinstance(n, ast.Name | ast.Attribute)
    ]
    named += [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    made = [node.name for node in tree.body if isinstance(node, kinds)]
    return sum(name.startswith("_") and not name.startswith("__") and named.count(name) <= 1 for name in made)


def numbers(tree: ast.Module) -> int:
    """Numeric literals that are assigned at module level."""
    values = [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    found = [x.value for value in values for x in ast.walk(value) if isinstance(x, ast.Constant)]
    return sum(isinstance(x, int | float) and not isinstance(x, bool) for x in found)


def longest_functions() -> list[tuple[int, str]]:
    """(lines, file:name) of every function, the longest first."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return sorted(
        (
            (node.end_lineno - node.lineno + 1, f"{path.relative_to(SOURCE)}:{node.name}")
            for path in FILES
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, kinds) and node.end_lineno
        ),
        reverse=True,
    )


def run_through(work: Callable[[], object]) -> tuple[int, int]:
    """(files, functions) of ours that `work` calls."""
    called: set[tuple[str, str]] = set()

    def seen(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len({file for file, _ in called}), len(called)


def on_the_way() -> Iterator[tuple[str, tuple[int, int]]]:
    """What runs from 256 groups of 16 rewards with 10 % spikes to metrics, and from a dump to its audit page."""
    import torch

    import rovrl
    from rovrl.cli import main
    from rovrl.robust.kernels import use_kernel

    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(256 * 16, generator=generator, dtype=torch.float64)
    rewards += 16 * (torch.rand(len(rewards), generator=generator) < 0.1)
    ids = torch.arange(256).repeat_interleave(16)
    presets = {
        "paper": rovrl.RewardChannel(),
        "guarded": rovrl.RewardChannel(credit_bound="adaptive", credit_floor="adaptive", faults="reject"),
    }
    for name, channel in presets.items():
        run = rovrl.RewardRun(channel)
        with use_kernel("eager"):
            yield (
                f"rewards to metrics, {name}",
                run_through(lambda run=run: (run.advantages(rewards, ids), run.metrics())),
            )
    with tempfile.TemporaryDirectory() as place:
        dump = Path(place) / "dump.jsonl"
        rows = (
            f'{{"prompt": "p{i}", "completion": "c", "reward": {r}}}'
            for i, r in zip(ids.tolist(), rewards.tolist(), strict=True)
        )
        dump.write_text("\n".join(rows))
        with contextlib.redirect_stdout(io.StringIO()):
            found = run_through(lambda: main(["audit", str(dump), "--out", place]))
        yield "a dump to its audit page", found


def report() -> None:
    """Prints all figures."""
    rooms: dict[str, list[int]] = {}
    for path in FILES:
        text, parts = path.read_text(), path.relative_to(SOURCE).parts
        tree = ast.parse(text)
        tuned = numbers(tree) if any(word in path.as_posix() for word in TUNED) else 0
        row = rooms.setdefault("/".join(parts[: min(len(parts) - 1, 2)]), [0] * 4)
        for k, figure in enumerate((1, text.count("\n"), private_once(tree), tuned)):
            row[k] += figure
    print(f"{'room':32}{'files':>7}{'lines':>7}{'private, used once':>20}{'tuned numbers':>15}")
    total = [sum(figures) for figures in zip(*rooms.values(), strict=True)]
    for name, row in [*sorted(rooms.items()), ("total", total)]:
        print(f"{name:32}{row[0]:7,}{row[1]:7,}{row[2]:20,}{row[3]:15,}")
    print("\nlines in src/rovrl:", f"{sum(row[1] for name, row in rooms.items() if name.split('/')[0] == 'rovrl'):,}")
    print("packages that import each other:", len(mutual()), *map(" - ".join, mutual()))
    print("longest functions:", ", ".join(f"{name} ({lines})" for lines, name in longest_functions()[:3]))
    for what, (files, functions) in on_the_way():
        print(f"files (functions) that run, {what}: {files} ({functions})")


if __name__ == "__main__":
    report()
