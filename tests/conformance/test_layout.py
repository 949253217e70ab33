"""The import graph of craftc: imports point down the layers of the package, never in a circle, and no module
is long.
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.common import ROOT

#: From the top down. Units of one layer do not import each other; a unit is a package or a module directly
#: under craftc.
LAYERS = [
    {"__main__", "_pyinstaller"},
    {"cli"},
    {"report"},
    {"embed", "export", "plot", "saved"},
    {"bpmeans", "convex", "covariates", "craft", "dpmeans", "kprototypes", "mixture", "spectral"},
    {"_fusion"},
    {"describe", "distributed", "reading"},
    {"table"},
    {"_about", "datasets", "metrics"},
    {"_common"},
    {"_missing_kernels"},
    {"_kernels"},
]
RANK = {unit: -rank for rank, layer in enumerate(LAYERS) for unit in layer}
MOST_LINES = 600


def modules(root):
    """Path of every module of root/craftc by its dotted name."""
    found = {}
    for path in (root / "craftc").rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_graph(root):
    """Modules that each module imports anywhere: at the top, in functions, for type checking."""
    paths = modules(root)
    known = {
        *paths,
        *(f"craftc._kernels.{path.stem}" for path in (root / "craftc" / "_kernels").glob("*.pyi")),
    }
    graph = {}
    for name, path in paths.items():
        package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        graph[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                parts = [
                    *(package[: len(package) - node.level + 1] if node.level else []),
                    *filter(None, [node.module]),
                ]
                base = ".".join(parts)
                wanted = [
                    f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
                    for alias in node.names
                ]
            else:
                continue
            graph[name].update(each for each in wanted if each.split(".")[0] == "craftc")
        graph[name].discard(name)
    return graph


def unit(name):
    """The package or module under craftc that a module belongs to; '' for craftc itself."""
    return name.partition(".")[2].partition(".")[0]


def upward(graph):
    """Imports between units that do not go to a lower layer.

    Nothing may import craftc/__init__.py, which imports everything.
    """
    return sorted(
        f"{name} -> {target}"
        for name, targets in graph.items()
        for target in targets
        if name != "craftc"
        and unit(name) != unit(target)
        and (not unit(target) or RANK[unit(name)] <= RANK[unit(target)])
    )


def cycle(graph):
    """One cycle of imports, or nothing."""
    finished, path = set(), []

    def visit(name):
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in finished:
            path.append(name)
            for target in sorted(graph.get(name, ())):
                if found := visit(target):
                    return found
            finished.add(path.pop())
        return []

    return next(filter(None, map(visit, sorted(graph))), [])


def test_every_module_has_a_layer():
    assert {unit(name) for name in modules(ROOT)} - {""} <= set(RANK)


def test_imports_point_down():
    assert upward(import_graph(ROOT)) == []


def test_imports_have_no_cycle():
    assert cycle(import_graph(ROOT)) == []


@pytest.fixture(scope="module")
def contributing():
    path = ROOT / "CONTRIBUTING.md"
    if not path.exists():
        pytest.skip("CONTRIBUTING.md is not here (an unpacked sdist)")
    return path.read_text(encoding="utf-8")


def entries(folder):
    """Folders and files of a folder that are not built, as the layout of CONTRIBUTING.md names them."""
    found = {path.name + "/" * path.is_dir() for path in folder.iterdir() if path.name != "__pycache__"}
    return {name for name in found if name.endswith(("/", ".py", ".pxd", ".h"))}


def test_contributing_has_the_layout_of_the_folders(contributing):
    block = re.search(r"^## Code layout.*?```\n(.*?)```", contributing, re.DOTALL | re.MULTILINE)[1]
    package = re.search(r"^craftc/\n(.*?)^\S", block, re.DOTALL | re.MULTILINE)[1]
    named = [word for word in package.split() if re.fullmatch(r"[\w.]+(/|\.py|\.pxd|\.h)", word)]
    assert sorted(named) == sorted(entries(ROOT / "craftc"))
    for folder in ("tests", "benches"):
        line = re.search(rf"^{folder}/ (.*)$", block, re.MULTILINE)[1]
        inside = {name for name in entries(ROOT / folder) if name.endswith("/")}
        assert set(re.findall(r"\b\w+/", line)) == inside


def test_contributing_has_the_order_of_imports(contributing):
    sentence = re.search(r"^Imports point down: (.*?)\.$", contributing, re.DOTALL | re.MULTILINE)[1]
    assert [set(re.findall(r"`(\w+)`", layer)) for layer in sentence.split("->")] == LAYERS


def test_no_module_is_long():
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules(ROOT).items()}
    assert {name: number for name, number in lines.items() if number > MOST_LINES} == {}


@pytest.mark.parametrize(
    ("source", "arrow"),
    [
        ("from craftc.craft import CRAFT", "craftc.table.frames -> craftc.craft"),
        ("def read():\n    import craftc.craft.estimator", "craftc.table.frames -> craftc.craft.estimator"),
        (
            "if TYPE_CHECKING:\n    from craftc.craft.estimator import CRAFT",
            "craftc.table.frames -> craftc.craft.estimator",
        ),
        ("from ..craft import estimator", "craftc.table.frames -> craftc.craft.estimator"),
        ("from craftc import CRAFT", "craftc.table.frames -> craftc"),
    ],
)
def test_an_import_that_points_up_is_found(source, arrow, tmp_path):
    for name, text in {
        "table/frames.py": source,
        "craft/__init__.py": "",
        "craft/estimator.py": "from craftc.table import frames",
    }.items():
        path = tmp_path / "craftc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    graph = import_graph(tmp_path)
    assert upward(graph) == [arrow]
    assert bool(cycle(graph)) == arrow.endswith("estimator")
