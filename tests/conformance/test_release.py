"""What a release says of itself: one version, one list of dependencies, links that a package index knows."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.mutants.__main__ import mutants, stale

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
URL = "https://example.org/craftc"


@pytest.fixture(scope="module")
def recipe():
    return yaml.safe_load((ROOT / ".ci/conda/recipe.yaml").read_text())


def test_one_version(recipe):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert recipe["context"]["version"] == citation["version"] == PROJECT["version"]


def test_the_conda_recipe_has_the_dependencies_of_the_package(recipe):
    needed = [name.replace(">=", " >=") for name in PROJECT["dependencies"]]
    assert recipe["requirements"]["run"] == ["python", *needed]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert [each for each in recipe["requirements"]["host"] if isinstance(each, str)][2:] == [
        name.lower().replace(">=", " >=", 1) for name in build
    ]


def test_wheels_are_tested_with_the_same_files_here_and_on_every_platform():
    given = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["test-sources"]
    unpacked = re.search(r"--wildcards (.*)", (ROOT / ".ci/wheels").read_text())[1]
    assert re.findall(r'"\*/([^"]+)"', unpacked) == given


def test_only_a_build_translates_the_kernels(tmp_path):
    """pip asks for metadata twice before it builds."""
    pytest.importorskip("Cython", reason="setup.py needs it")
    pytest.importorskip("setuptools")
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "*.c")
    for folder in ("craftc", "src"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE.md"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "setup.py", "-q", "egg_info"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.c"))


@pytest.fixture
def checkout(tmp_path):
    for name in (
        "README.md",
        "pyproject.toml",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CITATION.cff",
    ):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("gallery", "*.pyc"))
    return tmp_path


def run(checkout):
    command = [sys.executable, ROOT / ".ci/release-links", URL, "v1"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=60)


def test_links_of_a_release_are_absolute(checkout):
    before = re.findall(r"\]\(([^)\s]+)\)", (checkout / "README.md").read_text())
    result = run(checkout)
    assert result.returncode == 0, result.stderr
    after = re.findall(r"\]\(([^)\s]+)\)", (checkout / "README.md").read_text())
    assert len(before) == len(after) > 10
    for old, new in zip(before, after, strict=True):
        assert new in (f"{URL}/blob/v1/{old}", f"{URL}/raw/v1/{old}")
    urls = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["urls"]
    assert {"Documentation", "Changelog"} <= set(urls)
    assert all(page.startswith(URL) for page in urls.values())
    assert run(checkout).returncode == 1  # not twice


def test_a_link_to_a_missing_file_is_refused(checkout):
    with (checkout / "README.md").open("a") as readme:
        readme.write("[lost](docs/lost.md)\n")
    result = run(checkout)
    assert result.returncode == 1
    assert "docs/lost.md" in result.stderr


def test_mutants_fit_the_code():
    """`python -m tests.mutants --check`: every old text occurs once, and every test exists."""
    assert stale(mutants()) == []
