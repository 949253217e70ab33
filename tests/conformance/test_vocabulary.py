"""Words: each term of an algorithm leads to one kernel, and texts are in plain technical English."""

from __future__ import annotations

import re

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
        "_common.pxd: check_at_least",
        "_common.pxd: check_indices",
        "_common.pxd: check_lengths",
        "_common.pxd: check_shapes",
        "_common.pxd: check_threads",
        "_common.pxd: doubles_in",
        "_common.pxd: doubles_out",
        "_common.pxd: rows_in",
        "_common.pxd: _doubles",
        "_common.pxd: _elements",
    }


#: Words of a dialect, and turns that make a sentence state two facts.
AVOIDED = re.compile(
    r"\b(told|wish(es|ed)?|settle[sd]?|holes?|twins?|walk(s|ed|ing)?|beside|so many|formerly|second edition"
    r"|what is said|those that|the latter|of which|from which on)\b".replace(" ", r"\s+"),
    re.IGNORECASE,
)
#: Functions, terms and messages of others that contain such a word.
FOREIGN = ("ast.walk", "os.walk", "random walk", "feature names should match those that were passed")
TEXTS = {".py", ".pyx", ".pxd", ".h", ".md", ".rst", ".toml", ".yml", ".ipynb"}
FOLDERS = ("craftc", "src", "tests", "benches", "docs", "examples", ".github", ".ci")


def avoided(text):
    """The words that are to be avoided, line breaks and marks of comments apart."""
    for phrase in FOREIGN:
        text = text.replace(phrase, "")
    return sorted({match[0].lower() for match in AVOIDED.finditer(re.sub(r"[\s#*]+", " ", text))})


@pytest.mark.parametrize("folder", FOLDERS)
def test_plain_words(folder):
    found = {}
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in TEXTS and "generated" not in path.parts and path.name != "test_vocabulary.py":
            found[str(path.relative_to(ROOT))] = avoided(path.read_text(encoding="utf-8"))
    assert {name: words for name, words in found.items() if words} == {}


def test_plain_words_at_the_top():
    paths = [*ROOT.glob("*.md"), ROOT / "setup.py", ROOT / "pyproject.toml"]
    assert {path.name: words for path in paths if (words := avoided(path.read_text(encoding="utf-8")))} == {}


def test_avoided_words_are_found():
    assert avoided("# of\n# which, and ast.walk(tree), so   many") == ["of which", "so many"]
