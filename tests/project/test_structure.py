"""The house: imports go one way, statistics know nothing of what they measure, folders are small and tests lie beside them."""

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from project import house
from project.house import ROOT, imports

PACKAGE = ROOT / "src" / "rovrl"
GRAPH = house.graph()


def room(module: str) -> str:
    """The package (or file) directly below rovrl in which a module lies; rovrl_paper's with that name before it."""
    package, _, inside = module.partition(".")
    return inside.split(".")[0] if package == "rovrl" and inside else ".".join(module.split(".")[:2])


def cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_module_imports_itself_by_a_detour_not_even_inside_a_function():
    assert cycle(GRAPH) == []


def test_no_two_packages_import_each_other_not_even_inside_a_function():
    assert house.mutual() == []


def test_a_file_is_one_idea_of_at_most_four_hundred_lines():
    long = [path.name for path in house.FILES if path.read_text().count("\n") > house.MOST_LINES]
    assert long == []


def test_no_package_imports_itself_by_a_detour():
    programs = {name for name in GRAPH if name.endswith("__main__")}  # started, never imported
    outer = {"rovrl", "rovrl_paper"}
    rooms: dict[str, set[str]] = {}
    for name in GRAPH.keys() - programs - outer:
        rooms.setdefault(room(name), set()).update(room(other) for other in GRAPH[name] - outer)
    assert cycle({name: others - {name} for name, others in rooms.items()}) == []


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ("robust", {"config", "credit", "advantage", "weight", "loss", "run", "integrations", "audit"}),
        ("rovrl_paper.lab", {"rovrl_paper.paper"}),
        ("rovrl_paper.stress", {"rovrl_paper.paper", "rovrl_paper.lab"}),
        ("output", {"audit", "train", "evaluate", "integrations"}),
        ("integrations", {"train", "audit"}),
        ("credit", {"advantage", "run", "integrations"}),
        ("loss", {"advantage", "run", "integrations"}),
    ],
)  # fmt: skip
def test_what_lies_below_does_not_import_what_lies_above(below, above):
    found = {(name, other) for name in GRAPH if room(name) == below for other in GRAPH[name] if room(other) in above}
    assert found == set()


def test_the_product_does_not_know_the_paper_but_for_the_table_of_commands():
    found = {(name, other) for name in GRAPH for other in GRAPH[name] if other.startswith("rovrl_paper")}
    assert {name for name, _ in found if not name.startswith("rovrl_paper")} == {"rovrl.cli"}
    table = (PACKAGE / "cli.py").read_text()
    assert "import rovrl_paper" not in table
    assert "from rovrl_paper" not in table  # names, loaded when called


def test_compiled_files_import_nothing_of_ours_but_how_they_are_compiled():
    kernels = PACKAGE / "robust" / "kernels"
    found = {
        (path.name, other) for path in kernels.glob("*.py") for other in imports(path) if other.startswith("rovrl")
    }
    assert {other for _, other in found} == {"rovrl.robust.kernels.jit"}


def test_statistics_do_not_say_what_they_measure():
    said = re.compile("reward|token", re.IGNORECASE)
    files = list((PACKAGE / "robust").rglob("*.py"))
    assert len(files) > 20
    assert [str(path) for path in files if said.search(path.read_text())] == []


def folders(*roots: str) -> Iterator[tuple[str, list[Path]]]:
    for root in roots:
        for folder in sorted({path.parent for path in (ROOT / root).rglob("*.py")}):
            yield folder.relative_to(ROOT).as_posix(), [path for path in folder.iterdir() if path.is_file()]


def test_a_folder_holds_at_most_fifteen_files():
    large = {name for name, files in folders("src", "tests") if len(files) > house.MOST_FILES}
    assert large == set()


def test_unit_tests_lie_in_the_folders_of_what_they_test():
    ours = {folder.removeprefix("src/").removeprefix("rovrl/") for folder, _ in folders("src")} | {""}
    tests = {folder.removeprefix("tests/unit").strip("/") for folder, _ in folders("tests/unit")}
    assert tests - ours == set()
    rooms = {name for name in ours if name and "/" not in name}
    untested = {name for name in rooms if not any(test.split("/")[0] == name for test in tests)}
    assert untested == {"rovrl", "baselines"}  # one file: tests/unit/test_baselines.py
