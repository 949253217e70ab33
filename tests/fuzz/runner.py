"""Runs fuzz cases in forked children of a prepared parent, with limits of time and memory."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from threadpoolctl import threadpool_limits

from tests.fuzz.problems import Problem, brief

SANITIZED = "san" in os.environ.get("LD_PRELOAD", "")  # a sanitizer reserves terabytes of addresses
_ADDRESSES = 3 << 30  # beyond the memory of a case: stacks and arenas of its threads
_GRACE = 1.0  # seconds for the traceback of a child that is too slow
_LENGTH = struct.Struct("<q")

Case = tuple[str, int]  # area and seed


class Area(Protocol):
    """A module with cases of one part of the library."""

    AREA: str
    SHARE: float

    def prepare(self) -> Any:
        """What all cases share; enters no parallel region, so that children can."""

    def case(self, seed: int, state: Any, folder: Path) -> list[Problem]:
        """One case, a pure function of its seed; `folder` is empty and its own."""


class Limits(NamedTuple):
    """Limits of one case: seconds, bytes of memory beyond the parent's.

    The seconds are of wall time, or of the processor while the case waits for one: on a busy machine nothing
    else would be found.
    """

    seconds: float = 60.0
    memory: int = 1 << 30


@dataclass
class Failure:
    """A case with problems."""

    case: Case
    problems: list[Problem]
    output: str = ""  # the end of what the child wrote to stderr
    before: tuple[Case, ...] = ()  # cases without which the problem does not appear

    @property
    def reproduction(self) -> str:
        """The command that runs this case alone, or after those without which it shows nothing."""
        return " ".join(
            ["python -m tests.fuzz", *(f"--case {area}:{seed}" for area, seed in (*self.before, self.case))]
        )


@dataclass
class _Child:
    """A child, its cases, and what an earlier child showed of the one that it runs alone."""

    cases: list[Case]
    earlier: Failure | None
    pid: int
    pipe: int
    folder: Path
    limits: Limits
    deadline: float
    ended: bool = False
    late: bool = False
    busy: float = 0.0  # seconds of the processor up to the latest answer
    answered: int = 0
    received: bytearray = field(default_factory=bytearray)

    def answers(self) -> Iterator[list[Problem]]:
        """Read from the pipe: the problems of every case that has ended since the last call."""
        piece = os.read(self.pipe, 1 << 16)
        self.ended = not piece
        self.received += piece
        while len(self.received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self.received)[0]
            if len(self.received) < end:
                return
            problems = pickle.loads(bytes(self.received[_LENGTH.size : end]))
            del self.received[:end]
            self.answered += 1
            self.deadline = time.monotonic() + self.limits.seconds
            self.busy = _use_of_processor(self.pid)[1]
            yield problems

    def check_time(self) -> None:
        """Ask a child that is too slow for its traceback, then kill it; one that waits for a processor has
        more time.
        """
        if self.ended or time.monotonic() < self.deadline:
            return
        running, busy = _use_of_processor(self.pid)
        if not self.late and running and busy - self.busy < self.limits.seconds:
            self.deadline += self.limits.seconds
            return
        os.kill(self.pid, signal.SIGKILL if self.late else signal.SIGUSR1)
        self.deadline += _GRACE
        self.late = True

    def output(self) -> str:
        """The end of what the child has written to stdout and stderr."""
        return (self.folder / "output").read_text(errors="replace")[-16000:]

    def close(self) -> tuple[list[Problem], str]:
        """Wait for the end of the child: problems of the case that ended it, and the end of its output."""
        os.close(self.pipe)
        _, status, usage = os.wait4(self.pid, 0)
        output = self.output()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.late:
            busy = usage.ru_utime + usage.ru_stime
            return [
                Problem("hang", "the case", f"not ended after {self.limits.seconds:g} s, {busy:.1f} s of CPU")
            ], output
        if status:
            code = os.waitstatus_to_exitcode(status)
            return [
                Problem("crash", "the case", signal.Signals(-code).name if code < 0 else f"exit code {code}")
            ], output
        return [], output


def _use_of_processor(pid: int) -> tuple[bool, float]:
    """Whether a thread of a process runs, or would if a processor were free; and seconds of the processor."""
    states, ticks = [], 0
    for file in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # the thread has ended
            continue
        states.append(fields[0])
        ticks += int(fields[11]) + int(fields[12])
    return "R" in states, ticks / os.sysconf("SC_CLK_TCK")


def schedule(areas: Iterable[Area], cases: int, seed: int) -> list[Case]:
    """Area and seed of every case: seeds from `seed` on in every area, as many as its share, areas
    interleaved.
    """
    areas = list(areas)
    total = sum(area.SHARE for area in areas)
    placed = []
    for area in areas:
        n = max(1, round(cases * area.SHARE / total))
        placed += [((i + 0.5) / n, area.AREA, seed + i) for i in range(n)]
    return [(area, number) for _, area, number in sorted(placed)]


def run(
    areas: Mapping[str, Area], cases: Iterable[Case], limits: Limits, jobs: int = 1, batch: int = 1
) -> Iterator[Failure | None]:
    """Run cases, `jobs` children at a time with `batch` cases in each; a failure, or None for a case without
    a problem, as they end.

    A case of a longer batch that shows a problem is run again in a child of its own, and that result counts.
    If it shows nothing alone, the failure names the cases that ran before it.
    """
    with threadpool_limits(1):  # a thread pool of the parent would not work in a child
        states = {name: area.prepare() for name, area in areas.items()}
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    remaining = iter(cases)
    waiting: list[tuple[list[Case], Failure | None]] = []
    running: dict[int, _Child] = {}
    root = Path(tempfile.mkdtemp(prefix="fuzz-"))
    numbers = count()
    try:
        while True:
            while len(running) < jobs:
                following, earlier = waiting.pop() if waiting else (list(islice(remaining, batch)), None)
                if not following:
                    break
                child = _start(areas, states, following, earlier, root / str(next(numbers)), limits)
                running[child.pipe] = child
            if not running:
                return
            for child in _ready(running):
                for problems in child.answers():
                    if problems:
                        yield from _failed(child, child.answered - 1, problems, child.output(), waiting)
                    else:
                        yield child.earlier
                if child.ended:
                    del running[child.pipe]
                    problems, output = child.close()
                    if problems and child.answered < len(child.cases):
                        yield from _failed(child, child.answered, problems, output, waiting)
                        if rest := child.cases[child.answered + 1 :]:
                            waiting.append((rest, None))
    finally:
        for child in running.values():
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        shutil.rmtree(root, ignore_errors=True)


def _failed(
    child: _Child, i: int, problems: list[Problem], output: str, waiting: list[Any]
) -> Iterator[Failure]:
    """The failure of a case that was alone in its child; others are run again alone."""
    failure = Failure(child.cases[i], problems, output, tuple(child.cases[:i]))
    if i == 0:
        yield failure
    else:
        waiting.append(([child.cases[i]], failure))


def _start(
    areas: Mapping[str, Area],
    states: Mapping[str, Any],
    cases: list[Case],
    earlier: Failure | None,
    folder: Path,
    limits: Limits,
) -> _Child:
    folder.mkdir()
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(areas, states, cases, folder, writing, limits)
    os.close(writing)
    return _Child(cases, earlier, pid, reading, folder, limits, time.monotonic() + limits.seconds)


def _child(
    areas: Mapping[str, Area],
    states: Mapping[str, Any],
    cases: list[Case],
    folder: Path,
    pipe: int,
    limits: Limits,
) -> None:
    """Run cases and write their problems to the pipe; never returns."""
    code = 1
    try:
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        faulthandler.enable(all_threads=True)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        if not SANITIZED:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            most = pages * resource.getpagesize() + limits.memory + _ADDRESSES
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        for name, seed in cases:
            own = folder / f"{name}-{seed}"
            own.mkdir()
            os.truncate(folder / "output", 0)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            try:
                problems = [Problem(*map(str, each)) for each in areas[name].case(seed, states[name], own)]
            except Exception as error:  # of the case itself
                problems = [Problem("raw error", "the case", brief(error))]
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
            if grown > limits.memory and not SANITIZED:
                problems.append(Problem("memory", "the case", f"{grown / 2**20:.0f} MiB"))
            written = (folder / "output").read_bytes()
            if SANITIZED and b"runtime error:" in written:  # UBSan reports and continues
                problems.append(
                    Problem(
                        "crash",
                        "the case",
                        written.partition(b"runtime error:")[2].decode(errors="replace")[:300],
                    )
                )
            shutil.rmtree(own, ignore_errors=True)
            sys.stdout.flush()
            answer = pickle.dumps(problems)
            os.write(pipe, _LENGTH.pack(len(answer)) + answer)
        code = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _ready(running: Mapping[int, _Child]) -> list[_Child]:
    """Wait for children that have written or ended; those beyond their time are killed."""
    soon = min(child.deadline for child in running.values()) - time.monotonic()
    ready, _, _ = select.select(list(running), [], [], max(0.0, soon))
    for pipe, child in running.items():
        if pipe not in ready:
            child.check_time()
    return [running[pipe] for pipe in ready]


def report(failure: Failure, whole: bool) -> str:
    """The lines of one failure: its reproduction, a line for every problem, what a child wrote that crashed
    (`whole`: any).
    """
    lines = [
        failure.reproduction,
        *(f"    {each.kind}: {each.what}: {each.detail}" for each in failure.problems),
    ]
    if whole or any(each.kind in ("crash", "hang") for each in failure.problems):
        written = failure.output.splitlines()
        reports = [
            i
            for i, line in enumerate(written)
            if "ERROR: AddressSanitizer" in line or "runtime error:" in line
        ]
        shown = written[reports[0] :][:40] if reports else written[-40:]
        lines += [f"    | {line}" for line in shown if "xtension modules: " not in line]
    return "\n".join(lines)


def summary(failures: Iterable[Failure], cases: Mapping[str, int], seconds: float) -> str:
    """Counts by kind, and every distinct problem with its cases."""
    failures = list(failures)
    kinds = Counter(kind for failure in failures for kind in {each.kind for each in failure.problems})
    same: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in failures:
        for key in dict.fromkeys(
            (each.kind, each.what, each.detail.partition(": ")[0]) for each in failure.problems
        ):
            same.setdefault(key, []).append(failure)
    lines = []
    for (kind, what, detail), where in sorted(same.items(), key=lambda item: -len(item[1])):
        seeds = " ".join(f"{area}:{seed}" for area, seed in (each.case for each in where[:4]))
        lines.append(f"{len(where):6d}  {kind}: {what}: {detail[:110]}   ({seeds})")
    counts = ", ".join(f"{n} {area}" for area, n in sorted(cases.items()))
    found = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()) or "no problem"
    lines.append(f"{sum(cases.values())} cases ({counts}) in {seconds:.0f} s: {found}")
    return "\n".join(lines)
