"""Runs fuzz cases, each in a forked child of a prepared parent, with limits of time and memory."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.fuzz.problems import Problem, Problems, brief

SANITIZED = "san" in os.environ.get("LD_PRELOAD", "")  # a sanitizer reserves terabytes of addresses
_ADDRESSES = 3 << 30  # beyond the memory of a case: stacks and arenas of its threads
_GRACE = 1.0  # seconds for the traceback of a child that is too slow


class Area(Protocol):
    """A module with cases of one part of the library."""

    AREA: str
    SHARE: float

    def prepare(self) -> Any:
        """What all cases share; enters no parallel region, so that children can."""

    def case(self, seed: int, state: Any, folder: Path) -> list[Problem]:
        """One case, a pure function of its seed; `folder` is empty and its own."""


class Limits(NamedTuple):
    """Limits of one case: seconds of wall time, bytes of memory beyond the parent's."""

    seconds: float = 60.0
    memory: int = 1 << 30


@dataclass
class Failure:
    """A case with problems."""

    area: str
    seed: int
    problems: list[Problem]
    output: str = ""  # the end of what the child wrote to stderr

    @property
    def reproduction(self) -> str:
        """The command that runs this case alone."""
        return f"python -m tests.fuzz --case {self.area}:{self.seed}"


@dataclass
class _Child:
    area: str
    seed: int
    pid: int
    pipe: int
    folder: Path
    deadline: float
    late: bool = False
    answer: bytearray = field(default_factory=bytearray)


def schedule(areas: Iterable[Area], cases: int, seed: int) -> list[tuple[str, int]]:
    """Area and seed of every case: seeds from `seed` on in every area, as many as its share, areas interleaved."""
    areas = list(areas)
    total = sum(area.SHARE for area in areas)
    placed = []
    for area in areas:
        n = max(1, round(cases * area.SHARE / total))
        placed += [((i + 0.5) / n, area.AREA, seed + i) for i in range(n)]
    return [(area, number) for _, area, number in sorted(placed)]


def run(areas: Mapping[str, Area], cases: Iterable[tuple[str, int]], limits: Limits, jobs: int = 1) -> Iterator[Failure | None]:
    """Run cases, `jobs` at a time; a failure, or None for a case without a problem, as they end."""
    states = {name: area.prepare() for name, area in areas.items()}
    waiting = iter(cases)
    running: dict[int, _Child] = {}
    root = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        while True:
            while len(running) < jobs and (following := next(waiting, None)) is not None:
                name, seed = following
                child = _start(areas[name], seed, states[name], root / f"{name}-{seed}", limits)
                running[child.pipe] = child
            if not running:
                return
            for child in _ended(running):
                del running[child.pipe]
                yield _outcome(child, limits)
    finally:
        for child in running.values():
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        shutil.rmtree(root, ignore_errors=True)


def _start(area: Area, seed: int, state: Any, folder: Path, limits: Limits) -> _Child:
    folder.mkdir()
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(area, seed, state, folder, writing, limits)
    os.close(writing)
    return _Child(area.AREA, seed, pid, reading, folder, time.monotonic() + limits.seconds)


def _child(area: Area, seed: int, state: Any, folder: Path, pipe: int, limits: Limits) -> None:
    """Run one case and write its problems to the pipe; never returns."""
    code = 1
    try:
        output = os.open(_output(folder), os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        faulthandler.enable(all_threads=True)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        if not SANITIZED:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            most = pages * resource.getpagesize() + limits.memory + _ADDRESSES
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        try:
            problems = list(area.case(seed, state, folder))
        except Exception as error:  # of the case itself
            problems = [Problem("raw error", "the case", brief(error))]
        with os.fdopen(pipe, "wb") as file:
            pickle.dump([Problem(*map(str, each)) for each in problems], file)
        code = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _output(folder: Path) -> Path:
    return folder.with_name(folder.name + ".txt")


def _ended(running: Mapping[int, _Child]) -> list[_Child]:
    """Wait for one of the children to close its pipe; children beyond their time are killed, which closes it."""
    now = time.monotonic()
    ready, _, _ = select.select(list(running), [], [], max(0.0, min(child.deadline for child in running.values()) - now))
    ended = []
    for pipe in ready:
        piece = os.read(pipe, 1 << 16)
        running[pipe].answer += piece
        if not piece:
            ended.append(running[pipe])
    for child in running.values():
        if time.monotonic() >= child.deadline and child not in ended:
            os.kill(child.pid, signal.SIGKILL if child.late else signal.SIGUSR1)
            child.deadline += _GRACE
            child.late = True
    return ended


def _outcome(child: _Child, limits: Limits) -> Failure | None:
    os.close(child.pipe)
    _, status, usage = os.wait4(child.pid, 0)
    problems = Problems()
    if child.late:
        busy = usage.ru_utime + usage.ru_stime
        problems.append(Problem("hang", "the case", f"not ended after {limits.seconds:g} s, {busy:.1f} s of CPU"))
    elif status != 0:
        code = os.waitstatus_to_exitcode(status)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        problems.append(Problem("crash", "the case", name))
    else:
        problems.extend(pickle.loads(bytes(child.answer)))
        grown = usage.ru_maxrss * 1024 - resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if grown > limits.memory and not SANITIZED:
            problems.append(Problem("memory", "the case", f"{grown / 2**20:.0f} MiB"))
    output = ""
    with contextlib.suppress(FileNotFoundError):
        output = _output(child.folder).read_text(errors="replace")[-16000:]
        _output(child.folder).unlink()
    shutil.rmtree(child.folder, ignore_errors=True)
    if SANITIZED and "runtime error:" in output:  # UBSan reports and continues
        problems.append(Problem("crash", "the case", output[output.index("runtime error:") :].splitlines()[0]))
    return Failure(child.area, child.seed, problems, output) if problems else None


def report(failure: Failure) -> str:
    """The lines of one failure: its reproduction, and a line for every problem."""
    lines = [failure.reproduction, *(f"    {each.kind}: {each.what}: {each.detail}" for each in failure.problems)]
    if any(each.kind in ("crash", "hang") for each in failure.problems):
        lines += [f"    | {line}" for line in failure.output.splitlines()[-40:] if "xtension modules: " not in line]
    return "\n".join(lines)


def summary(failures: Iterable[Failure], cases: Mapping[str, int], seconds: float) -> str:
    """Counts by kind, and every distinct problem with its cases."""
    failures = list(failures)
    kinds = Counter(kind for failure in failures for kind in {each.kind for each in failure.problems})
    same: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in failures:
        for key in dict.fromkeys((each.kind, each.what, each.detail.partition(": ")[0]) for each in failure.problems):
            same.setdefault(key, []).append(failure)
    lines = []
    for (kind, what, detail), where in sorted(same.items(), key=lambda item: -len(item[1])):
        seeds = " ".join(f"{each.area}:{each.seed}" for each in where[:4])
        lines.append(f"{len(where):6d}  {kind}: {what}: {detail[:110]}   ({seeds})")
    counts = ", ".join(f"{n} {area}" for area, n in sorted(cases.items()))
    found = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()) or "no problem"
    lines.append(f"{sum(cases.values())} cases ({counts}) in {seconds:.0f} s: {found}")
    return "\n".join(lines)
