"""Do the tests notice wrong code? ``python -m tests.mutants [NAME...]``

Applies the mutants of ``mutants.toml`` one at a time in a copy of this checkout, rebuilds the kernels that a
mutant changes, and runs the tests that should notice it. Prints a table. Fails if fewer than 95 % are killed,
if a mutant's old text does not occur in its file exactly once, or if its tests fail without it.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.common import ROOT

TABLE = Path(__file__).parent / "mutants.toml"
BAR = 0.95  # share of the mutants that tests must kill
SECONDS = 150  # of the processor after which tests of a mutant count as failed: it never ends
_COPIED = (
    "craftc",
    "src",
    "tests",
    "build",
    "setup.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "NOTICE.md",
    "MANIFEST.in",
    "docs",
    "examples",
)
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "generated")
_TEST_FAILED, _STOPPED = 1, 2  # exit codes of pytest
_OPTIONS = (
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-o",
    "addopts=--import-mode=importlib",
    "--tb=no",
    "-m",
    "not slow",
    "-rfE",
)


class Mutant(NamedTuple):
    """One change of one text, and the tests that should fail with it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def area(self) -> str:
        """The package, or the folder of kernels."""
        top, folder = self.file.split("/")[:2]
        return f"kernels of {folder}" if top == "src" else folder

    @property
    def is_kernel(self) -> bool:
        """Whether extensions must be built."""
        return self.file.endswith((".pyx", ".h", ".pxd"))


class Outcome(NamedTuple):
    """What became of a mutant: "killed", "survived" or what is wrong with it."""

    status: str
    seconds: float
    by: str = ""


def mutants() -> list[Mutant]:
    """The table."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def stale(found: list[Mutant]) -> list[str]:
    """What is wrong with the table: names twice, texts that do not occur once, tests that do not exist."""
    wrong = [
        f"{name}: the name of {n} mutants" for name, n in Counter(m.name for m in found).items() if n > 1
    ]
    for mutant in found:
        path = ROOT / mutant.file
        times = path.read_text(encoding="utf-8").count(mutant.old) if path.is_file() else 0
        if times != 1:
            wrong.append(f"{mutant.name}: the old text occurs {times} times in {mutant.file}, not once")
        if mutant.old == mutant.new or not mutant.tests:
            wrong.append(f"{mutant.name}: changes nothing, or names no test")
        for test in mutant.tests:
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
            if f"def {name.partition('[')[0]}" not in text:
                wrong.append(f"{mutant.name}: there is no test {test}")
    return wrong


def _cimported(text: str) -> set[str]:
    """The kernels whose declarations a source reads."""
    return set(re.findall(r"^from craftc\._kernels\.(\w+) cimport", text, re.MULTILINE))


def including(header: str) -> list[str]:
    """The .pyx files whose C includes a header, at any depth, also by declarations that they cimport."""
    texts = {
        path.relative_to(ROOT / "src").as_posix(): path.read_text(encoding="utf-8")
        for path in (ROOT / "src").rglob("*")
        if path.suffix in (".h", ".pyx")
    }
    declared = {
        path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "craftc" / "_kernels").glob("*.pxd")
    }
    for name in texts:
        more = {Path(name).stem, *_cimported(texts[name])} & set(declared)
        seen: set[str] = set()
        while more := more - seen:
            seen |= more
            more = set().union(*(_cimported(declared[each]) for each in more)) & set(declared)
        texts[name] += "".join(declared[each] for each in sorted(seen))
    reached = {header}
    while more := {
        name
        for name, text in texts.items()
        if name not in reached and reached & set(re.findall(r'"([\w/]+\.h)"', text))
    }:
        reached |= more
    return sorted(name for name in reached if name.endswith(".pyx"))


class Copy:
    """A copy of the checkout in which mutants are applied."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in _COPIED:
            source, target = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=_NOT_COPIED)
            elif source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
        self.environment = {**os.environ, **threads, "CRAFTC_QUICK": "1", "HYPOTHESIS_PROFILE": "dev"}
        self.environment |= {"PYTHONPATH": str(folder), "PYTHONWARNINGS": ""}
        data = os.environ.get("CRAFTC_DATA", ROOT.parent / "shared" / "data")
        self.environment["CRAFTC_DATA"] = str(data)

    def run(self, *arguments: str, seconds: int = 2400) -> tuple[int, str]:
        """Exit code and output of a Python; -SIGKILL after these seconds of the processor, or where it waits
        for ever. A machine that others use makes it take longer, not fail.
        """
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
        )
        try:
            output = process.communicate(timeout=8.0 * seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0]
        return process.returncode, output

    def tests(self, names: tuple[str, ...], seconds: int = SECONDS) -> tuple[int, str]:
        """Exit code of these tests, and the first that failed or, without one, the last line."""
        code, output = self.run("-m", "pytest", *_OPTIONS, *names, seconds=seconds)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        last = output.strip().splitlines()[-1] if output.strip() else ""
        return code, failed[1] if failed else last

    def build(self) -> str:
        """Build what has changed; what went wrong, or nothing."""
        code, output = self.run("setup.py", "-q", "build_ext", "--inplace")
        return output[-2000:] if code else ""

    def apply(self, mutant: Mutant) -> Outcome:
        """Run the tests of a mutant, and leave the copy as it was."""
        path, start = self.folder / mutant.file, time.monotonic()
        original, times = path.read_text(encoding="utf-8"), path.stat()
        sources: list[str] = []
        if mutant.is_kernel:
            name = mutant.file.removeprefix("src/")
            sources = including(name) if name.endswith(".h") else [name]
        stems = [Path(source).stem for source in sources]
        # setuptools copies all extensions from its build folder, which must not keep those of a mutant
        built = [each for stem in stems for each in self.folder.rglob(f"{stem}.*.so")]
        kept = {each: each.read_bytes() for each in built}
        path.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            if sources:
                # a newer header would make all extensions old; the sources that include it are newer instead
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
                for source in sources:
                    (self.folder / "src" / source).touch()
                if wrong := self.build():
                    return Outcome("error", time.monotonic() - start, wrong)
                if all(each.read_bytes() == content for each, content in kept.items()):
                    return Outcome("error", time.monotonic() - start, "the build has changed no extension")
            code, by = self.tests(mutant.tests)
        finally:
            path.write_text(original, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            for each, content in kept.items():
                each.unlink(missing_ok=True)  # a new file: a process may still have the old one open
                each.write_bytes(content)
        killed = code in (_TEST_FAILED, _STOPPED) or code < 0
        status = "killed" if killed else "survived" if code == 0 else "error"
        return Outcome(status, time.monotonic() - start, "never ended" if code == -signal.SIGKILL else by)


def main() -> int:
    """Exit code: 0 if enough mutants are killed and none is in error."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants, or their areas; default: all")
    parser.add_argument("--check", action="store_true", help="only whether the table fits the code")
    chosen = parser.parse_args()
    table = mutants()
    if wrong := stale(table):
        print(*wrong, sep="\n")
        return 2
    if chosen.check:
        print(f"{len(table)} mutants fit the code")
        return 0
    if unknown := set(chosen.names) - {m.name for m in table} - {m.area for m in table}:
        parser.error(f"no mutants or areas of these names: {', '.join(sorted(unknown))}")
    if chosen.names:
        table = [m for m in table if m.name in chosen.names or m.area in chosen.names]
    with tempfile.TemporaryDirectory(prefix="craftc-mutants-") as folder:
        return _run(Copy(Path(folder)), table)


def _run(copy: Copy, table: list[Mutant]) -> int:
    start = time.monotonic()
    if wrong := copy.build():
        print(f"The kernels cannot be built:\n{wrong}")
        return 2
    code, by = copy.tests(tuple(sorted({test for mutant in table for test in mutant.tests})), 2400)
    if code:
        print(f"The tests fail without a mutant: {by}")
        return 2
    print(
        f"{len(table)} mutants; their tests pass without one, after {time.monotonic() - start:.0f} s\n",
        flush=True,
    )
    outcomes = []
    for mutant in table:
        outcomes.append(outcome := copy.apply(mutant))
        print(
            f"{outcome.status:9} {outcome.seconds:4.0f} s  {mutant.name:34} {mutant.file:40} {outcome.by}",
            flush=True,
        )
    print(f"\n{'area':26} killed of")
    for area in sorted({mutant.area for mutant in table}):
        own = [o.status for m, o in zip(table, outcomes, strict=True) if m.area == area]
        print(f"{area:26} {own.count('killed'):6} {len(own):2}")
    killed = sum(outcome.status == "killed" for outcome in outcomes)
    survived = [m.name for m, o in zip(table, outcomes, strict=True) if o.status != "killed"]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"\n{killed} of {len(table)} killed, {killed / len(table):.1%}, in {time.monotonic() - start:.0f} s, "
        f"{used.ru_utime + used.ru_stime:.0f} s of the processor"
    )
    if survived:
        print("Not killed:", *survived)
    return 0 if killed >= BAR * len(table) and all(o.status != "error" for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
