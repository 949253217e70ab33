"""What asv measured at two commits, side by side, as a Markdown table; exit code 1 where the second commit is
worse.

::

    asv continuous main HEAD --interleave-rounds --split -f 1.15
    python compare.py main HEAD

A time is worse when it is longer by a ratio AND by an absolute floor, from the upper quartile of the first
commit's samples to the lower quartile of the second's: a neighbour on the machine lengthens some samples, a
slower kernel all. An objective is worse when it is higher, whatever the time. Peak memory needs a ratio and a
floor, too. A benchmark that ran at the first commit and fails at the second is worse.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

CONFIG = Path(__file__).with_name("asv.conf.json")
GUARDS = ("track_objective", "track_residual")  # lower is better, and nothing is left to chance


class Limits(NamedTuple):
    """How much worse is worse."""

    ratio: float = 1.15  # of a time
    seconds: float = 100e-6
    memory_ratio: float = 1.10
    bytes: float = 5e6
    objective: float = 1e-9  # relative


class Measured(NamedTuple):
    """A benchmark at one commit: its value, of a time the median (None: failed, NaN: skipped), and the
    quartiles of its samples.
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    def ran(self) -> bool:
        return not math.isnan(self.number())

    def number(self) -> float:
        return math.nan if self.value is None else self.value


class Line(NamedTuple):
    """A benchmark at both commits.

    verdict: "slower", "faster", "higher", "lower", "failed", or "" where nothing speaks.
    """

    name: str
    base: Measured
    head: Measured
    verdict: str


def kind_of(name: str) -> str:
    """ "time", "memory", "objective", or "" for what is shown on the dashboard alone."""
    method = name.split("(")[0].rsplit(".", 1)[-1]
    if method.startswith(("time_", "timeraw_")):
        return "time"
    if method.startswith("peakmem_"):
        return "memory"
    return "objective" if method in GUARDS else ""


def beyond(more: Measured, less: Measured, ratio: float, floor: float) -> bool:
    """Whether the first is larger by both: its lower quartile than the other's upper one, where samples were
    taken.
    """
    a = more.number() if more.low is None else more.low
    b = less.number() if less.high is None else less.high
    return a > ratio * b and a - b > floor


def verdict(name: str, base: Measured, head: Measured, limits: Limits) -> str:
    """Whether a benchmark is worse at the head ("slower", "higher", "failed"), better ("faster", "lower") or
    neither ("").
    """
    if not base.ran():
        return ""
    if not head.ran():
        return "failed"
    kind = kind_of(name)
    if kind == "time":
        words, bounds = ("slower", "faster"), (limits.ratio, limits.seconds)
    elif kind == "memory":
        words, bounds = ("higher", "lower"), (limits.memory_ratio, limits.bytes)
    elif kind == "objective":  # of any sign, so that a ratio would say nothing
        change, slack = head.number() - base.number(), limits.objective * abs(base.number())
        return "higher" if change > slack else "lower" if change < -slack else ""
    else:
        return ""
    if beyond(head, base, *bounds):
        return words[0]
    return words[1] if beyond(base, head, *bounds) else ""


def compare(base: dict[str, Measured], head: dict[str, Measured], limits: Limits) -> list[Line]:
    """Every benchmark that was measured at both commits; one that fails was."""
    return [
        Line(name, base[name], head[name], verdict(name, base[name], head[name], limits))
        for name in sorted(base.keys() & head.keys())
    ]


WORSE = ("failed", "slower", "higher")


def worse_of(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if line.verdict in WORSE]


def human(name: str, measured: Measured) -> str:
    if not measured.ran():
        return "failed" if measured.value is None else "skipped"
    value, kind = measured.number(), kind_of(name)
    if kind == "time":
        for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
            if value >= size:
                return f"{value / size:.3g} {unit}"
        return f"{value * 1e9:.3g} ns"
    return f"{value / 1e6:.1f} MB" if kind == "memory" else f"{value:.12g}"


def table(lines: list[Line], limits: Limits) -> str:
    """The benchmarks that changed, in Markdown, with the worse ones first."""
    changed = sorted(
        (line for line in lines if line.verdict),
        key=lambda line: (line.verdict not in WORSE, line.verdict, line.name),
    )
    bad = len(worse_of(lines))
    rule = (
        f"Slower: by {limits.ratio:.2f}x and {limits.seconds * 1e6:.0f} µs. More memory: by "
        f"{limits.memory_ratio:.2f}x and "
        f"{limits.bytes / 1e6:.0f} MB. Objective: by {limits.objective:g}."
    )
    head = (
        f"**{bad} of {len(lines)} benchmarks are worse.**"
        if bad
        else f"**None of {len(lines)} benchmarks is worse.**"
    )
    if not changed:
        return f"{head} {rule}\n"
    rows = ["| | benchmark | before | after | ratio |", "|---|---|---|---|---|"]
    for line in changed:
        ratio = (
            f"{line.head.number() / line.base.number():.2f}" if line.head.ran() and line.base.value else ""
        )
        name = line.name.replace("|", "\\|")
        rows.append(
            f"| {line.verdict} | `{name}` | {human(line.name, line.base)} | {human(line.name, line.head)} | "
            f"{ratio} |"
        )
    return f"{head} {rule}\n\n" + "\n".join(rows) + "\n"


def patterns(lines: list[Line]) -> list[str]:
    """For ``asv --bench``: what is worse, to be measured once more.

    asv looks for these in names with their parameters.
    """
    return [f"^{re.escape(line.name)}$" for line in worse_of(lines)]


def measured(commit: str, machine: str | None = None) -> dict[str, Measured]:
    """Results of a commit as asv stored them, by name and parameters."""
    from asv.config import Config
    from asv.results import iter_results_for_machine_and_hash

    results = Path(CONFIG.parent, Config.load(str(CONFIG)).results_dir)
    machines = sorted(path.parent.name for path in results.glob("*/machine.json"))
    if machine is None:
        if len(machines) != 1:
            raise SystemExit(
                f"{results} has results of {machines or 'no machine'}; run asv first, or name one of them "
                "with --machine."
            )
        machine = machines[0]
    found = {}
    for result in iter_results_for_machine_and_hash(str(results), machine, commit):
        found.update(dict(_flat(result)))
    if not found:
        raise SystemExit(
            f"No results of {commit[:8]} on {machine}: run `asv continuous` or `asv run {commit[:8]}^!` "
            "first."
        )
    return found


def _flat(result: Any) -> Iterator[tuple[str, Measured]]:
    """asv keeps the values of a benchmark in one list, the last parameter running fastest."""
    for name in result.get_all_result_keys():
        params = result.get_result_params(name)
        values, stats = result.get_result_value(name, params), result.get_result_stats(name, params)
        for at, combination in enumerate(product(*params)):
            spread = stats[at] if stats and stats[at] else {}
            full = f"{name}({', '.join(combination)})" if combination else name
            yield full, Measured(values[at], spread.get("q_25"), spread.get("q_75"))


def full_hash(name: str) -> str:
    run = subprocess.run(
        ["git", "rev-parse", "--verify", f"{name}^{{commit}}"],
        cwd=CONFIG.parent,
        capture_output=True,
        text=True,
    )
    if run.returncode:
        raise SystemExit(f"git knows no commit {name!r}: {run.stderr.strip()}")
    return run.stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    default = Limits()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", help="commit, tag or branch to compare with")
    parser.add_argument("head", help="commit, tag or branch that is judged")
    parser.add_argument("--machine", help="where results of several machines are stored")
    parser.add_argument("--ratio", type=float, default=default.ratio, help="of a time (default: %(default)s)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=default.seconds,
        help="absolute floor of a time (default: %(default)s)",
    )
    parser.add_argument(
        "--again",
        type=Path,
        metavar="FILE",
        help="write `--bench` and a pattern per line, of what is worse, to FILE",
    )
    given = parser.parse_args(arguments)
    limits = default._replace(ratio=given.ratio, seconds=given.seconds)
    base, head = (measured(full_hash(commit), given.machine) for commit in (given.base, given.head))
    lines = compare(base, head, limits)
    text = table(lines, limits)
    if base.keys() != head.keys():
        text += (
            f"\nMeasured at one of the commits alone, and not compared: {len(base.keys() ^ head.keys())}.\n"
        )
    print(text)
    if given.again is not None:
        given.again.write_text(
            "".join(f"--bench\n{pattern}\n" for pattern in patterns(lines)), encoding="utf-8"
        )
    elif "GITHUB_STEP_SUMMARY" in os.environ:
        with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as summary:
            summary.write(text)
    return 1 if worse_of(lines) else 0


if __name__ == "__main__":
    sys.exit(main())
