"""Workflows and jobs hang together: actions pinned by commit, no more rights than said, every job there is
one on a developer's machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.common import ROOT

FOLDER = ROOT / ".github" / "workflows"
if not FOLDER.is_dir():
    pytest.skip("the workflows are not here (an unpacked sdist)", allow_module_level=True)
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
SCRIPTS = [ROOT / ".ci" / name for name in ("run", "job", "wheels", "check-wheels")]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_rights_are_few(path):
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: *(.*)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*", action), action
    assert re.search(r"^permissions:( \{\}|\n  contents: read)$", text, re.MULTILINE), (
        "what a job may do beyond reading, it says itself"
    )
    assert "secrets." not in text.replace("secrets.GITHUB_TOKEN", "")
    assert text.count("actions/checkout@") <= text.count("persist-credentials:")


def test_every_job_of_the_workflow_runs_on_a_developers_machine():
    jobs = set(
        re.findall(r"^job_(\w+)\(\)", (ROOT / ".ci" / "job").read_text(encoding="utf-8"), re.MULTILINE)
    )
    [matrix] = re.findall(r"job: \[(.*)\]", (FOLDER / "ci.yml").read_text(encoding="utf-8"))
    assert set(matrix.split(", ")) <= jobs
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert not [job for job in jobs if f"`{job}`" not in contributing]
    assert (
        set(re.findall(r"^job_(\w+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE))
        <= jobs
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_scripts_parse():
    for path in SCRIPTS:
        subprocess.run(["bash", "-n", path], check=True)


def test_every_header_is_compiled_without_a_warning():
    """`job_lint` compiles the headers that have a guard; every other one is included by a header, or named
    there as LEAVES.
    """
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.h")}
    compiled = {name for name, text in texts.items() if re.search("^#ifndef CRAFTC_", text, re.MULTILINE)} - {
        "_lanes.h"
    }
    included = {name for text in texts.values() for name in re.findall(r'"\w+/(_\w+\.h)"', text)}
    assert set(texts) <= compiled | included
    assert "grep -l '^#ifndef CRAFTC_' src/*/*.h | grep -v '/_lanes" in (ROOT / ".ci" / "job").read_text(
        encoding="utf-8"
    )
