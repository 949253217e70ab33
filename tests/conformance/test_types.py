"""What type checkers see of the public names: mypy on a small client outside the checkout."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys

import pytest

import craftc
from tests.common import ROOT

CLIENT = """\
from pathlib import Path

import numpy as np
import polars
import craftc
from craftc import CRAFT, DPMeans, KModes


class Mine(CRAFT):
    def fit_ones(self) -> CRAFT:
        return self.fit(np.ones((4, 2)))


reveal_type(CRAFT())  # is craftc.craft.estimator.CRAFT
reveal_type(CRAFT().fit(np.ones((4, 2))))  # is craftc.craft.estimator.CRAFT
reveal_type(Mine(n_clusters=3))  # is client.Mine
reveal_type(Mine(n_clusters=3).fit(np.ones((4, 2))))  # is client.Mine
reveal_type(craftc.get_include)  # is def () -> str
reveal_type(craftc.__version__)  # is str
DPMeans().fit(np.ones((4, 2))).fit([[1.0, 2.0], [3, 4]]).fit(Path("folder")).fit(["a.parquet", "b.parquet"])
KModes().fit({"a": ["x", "y"], "b": [True, None]}).fit([[1, None], ["a", 2.0]]).fit(polars.DataFrame())
reveal_type(KModes().fit({}))  # is craftc.kprototypes.estimators.KModes
DPMeans().fit(3)  # error: Argument 1 to "fit" of "DPMeans" has incompatible type "int"
KModes(random_state=0.5)  # error: Argument "random_state" to "KModes" has incompatible type "float"
CRAFT(n_init="a")  # error: Argument "n_init" to "CRAFT" has incompatible type "str"; expected "int"
CRAFT(n_clusters=2.5)  # error: Argument "n_clusters" to "CRAFT" has incompatible type "float"
craftc.CRAFTS  # error: Module has no attribute "CRAFTS"
"""


def checked(folder, source):
    """Messages of ``mypy --strict`` by line of a client."""
    (folder / "client.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "client.py"]
    options = ["--follow-imports=silent", "--ignore-missing-imports", f"--cache-dir={folder / 'cache'}"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command + options, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    found = re.findall(r"^client\.py:(\d+): (?:note: Revealed type is |error: )(.*)$", done.stdout, re.M)
    return {int(line): message.replace("builtins.", "") for line, message in found}


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None, reason="mypy is not installed (it comes with craftc[test])"
)
def test_a_client_sees_types(tmp_path):
    names = [f"reveal_type(craftc.{name})\n" for name in craftc.__all__]
    first = CLIENT.count("\n") + 1
    messages = checked(tmp_path, CLIENT + "".join(names))
    of_names = [messages.pop(first + position) for position in range(len(names))]
    assert [name for name, message in zip(names, of_names, strict=True) if message.strip('"') == "Any"] == []
    wanted = {
        number: line.partition("  # ")[2]
        for number, line in enumerate(CLIENT.splitlines(), 1)
        if "  # " in line
    }
    assert set(messages) == set(wanted)
    for number, text in wanted.items():
        kind, _, start = text.partition(" ")
        assert messages[number].startswith(f'"{start}' if kind == "is" else start)


def test_type_checkers_and_the_interpreter_find_the_same_names():
    """The imports for type checkers equal the imports of `__getattr__`."""
    tree = ast.parse((ROOT / "craftc" / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    modules = {name for name, module in imported.items() if module == "craftc"}
    assert {name: module for name, module in imported.items() if name not in modules} == craftc._HOMES
    assert set(imported) == set(craftc.__all__)


def test_dir_lists_public_names_only():
    assert dir(craftc) == sorted([*craftc.__all__, "__version__"])
