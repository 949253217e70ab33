"""The notebook among the examples: it runs, and its stored outputs are those of this version."""

from __future__ import annotations

import os

import pytest

import craftc
from tests.common import ROOT

nbformat = pytest.importorskip("nbformat", reason="reads the notebook; in the extra dev")
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def outputs_of(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def texts_of(notebook):
    """Printed text and plain results of every cell; of figures, that there is one."""
    return [
        output["text"]
        if output.output_type == "stream"
        else "image/png" in output.data or output.data["text/plain"]
        for output in outputs_of(notebook)
    ]


def test_the_notebook_is_stored_with_its_outputs(notebook):
    assert NOTEBOOK.stat().st_size < 500_000
    nbformat.validate(notebook)
    runs = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert runs == list(range(1, len(runs) + 1))
    assert sum(text is True for text in texts_of(notebook)) == 7  # figures
    assert {output.output_type for output in outputs_of(notebook)} <= {
        "execute_result",
        "display_data",
        "stream",
    }
    assert all(output.get("name", "stdout") == "stdout" for output in outputs_of(notebook))  # no warnings
    overview = next(
        output.data["text/html"]
        for output in outputs_of(notebook)
        if "CRAFT(" in output.get("data", {}).get("text/plain", "")
    )
    assert "craftc-overview" in overview
    assert all(name in overview for name in craftc.CRAFT().get_params())


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of the client of the kernel
def test_the_notebook_gives_its_stored_outputs(notebook, monkeypatch):
    client = pytest.importorskip("nbclient", reason="runs the notebook; in the extra dev")
    pytest.importorskip("ipykernel", reason="runs the notebook; in the extra dev")
    pytest.importorskip("matplotlib", reason="the notebook draws")
    stored = texts_of(notebook)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    client.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    assert texts_of(notebook) == stored
