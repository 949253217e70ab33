"""Words by which a reader searches for an algorithm: each leads to one kernel."""

from __future__ import annotations

import pytest

from tests.common import ROOT


@pytest.mark.parametrize(
    ("words", "kernel"),
    [
        ("CAF", "craft.pyx"),
        ("ADMM edge pass", "covariates.pyx"),
        ("pseudo-likelihood gradient", "spectral.pyx"),
    ],
)
def test_words_lead_to_one_kernel(words, kernel):
    sources = [*(ROOT / "src").rglob("*.pyx"), *(ROOT / "src").rglob("*.h")]
    assert [path.name for path in sources if words in path.read_text(encoding="utf-8")] == [kernel]


def test_declaration_files_have_no_bodies():
    """A .pxd declares; what needs a body in every module, as a fused leaf called for each row, is listed."""
    bodies = {
        f"{path.name}: {line.split('(')[0].split()[-1].lstrip('*')}"
        for path in (ROOT / "craftc" / "_kernels").glob("*.pxd")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("cdef inline ")
    }
    assert bodies == {
        "_common.pxd: check",
        "_common.pxd: check_indices",
        "_common.pxd: check_threads",
        "_common.pxd: doubles_in",
        "_common.pxd: doubles_out",
        "_common.pxd: rows_in",
        "_common.pxd: _doubles",
        "_common.pxd: _elements",
    }
