"""All tables and figures of the five papers and ours, by one command.

    python -m benches.replication --list                what the programs print, and how long they take
    python -m benches.replication --all [--quick] [--data DIR] [--out FOLDER]
    python -m benches.replication NAME [NAME ...] [--quick] [--data DIR] [--out FOLDER]
    python -m benches.replication --check [--data DIR]  are the files in DIR the ones measured?

Every program runs in a process of its own and prints its tables as it goes; the last table is the time of
each. `--out` also writes them to NAME.md, and figures to NAME/. Files that are missing are named and skipped;
`sources.toml` says where they come from.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import resource
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

HERE = Path(__file__).resolve().parent


class Program(NamedTuple):
    """A program of this folder."""

    paper: str
    contents: str  # tables and figures
    quick: int  # minutes of a quick run on a busy core
    figures: str  # option that names their folder; "": there are none


PROGRAMS: Mapping[str, Program] = {
    "craft": Program(
        "Garg, Rudin & Jaakkola 2016, CRAFT",
        "figures 2 to 5, tables 1 and 2, times; noise, m, sharing",
        4,
        "--plots",
    ),
    "madbayes": Program(
        "Broderick, Kulis & Jordan 2013, MAD-Bayes",
        "figures 1 to 3, Gibbs sampler, appendix E; peers of DP-means",
        3,
        "--figures",
    ),
    "mixture": Program(
        "Guan, Dy & Jordan 2011, global/local feature selection",
        "synthetic 1 and 2, table 1, figures 2 and 4",
        5,
        "--figures",
    ),
    "covariates": Program(
        "Andrade, Fukumizu & Okajima 2019, convex covariate clustering",
        "tables 1 to 6, speed",
        5,
        "",
    ),
    "spectral": Program(
        "Sahoo & Chakraborty 2020, graph spectral features",
        "tables I to IV, figures 2 and 3, known graphs",
        2,
        "--plots",
    ),
}


class Source(TypedDict):
    """An entry of sources.toml, as far as it is used here."""

    file: str
    programs: list[str]
    urls: list[str]
    sha256: str


def sources() -> list[Source]:
    """The entries of sources.toml."""
    with (HERE / "sources.toml").open("rb") as file:
        return list(tomllib.load(file).values())


def files_of(name: str) -> list[str]:
    """The files that a program reads."""
    return [entry["file"] for entry in sources() if name in entry["programs"]]


def run(name: str, options: argparse.Namespace) -> tuple[int, float, float]:
    """Exit code, seconds and CPU seconds of a program, whose output goes to the terminal."""
    command = [sys.executable, str(HERE / f"{name}.py")]
    command += ["--quick"] * options.quick
    if options.data:
        command += ["--data", options.data]
    if options.out:
        command += ["--out", str(options.out / f"{name}.md")]
        if PROGRAMS[name].figures:
            command += [PROGRAMS[name].figures, str(options.out / name)]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, time.perf_counter() - begin, cpu


def run_all(names: Sequence[str], options: argparse.Namespace) -> int:
    """Every program in turn, and their times; 1 if one failed."""
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    lines = ["| program | paper | s | CPU s | |", "|---|---|---|---|---|"]
    failed = 0
    for name in names:
        print(f"\n==== {name}: {PROGRAMS[name].paper} ====\n", flush=True)
        code, seconds, cpu = run(name, options)
        failed += code != 0
        end = "" if code == 0 else f"exit code {code}"
        lines.append(f"| {name} | {PROGRAMS[name].paper} | {seconds:.0f} | {cpu:.0f} | {end} |")
    text = "\n".join(lines)
    print(f"\n==== times ====\n\n{text}")
    if options.out:
        (options.out / "times.md").write_text(text + "\n", encoding="utf-8")
    return int(failed > 0)


def show() -> int:
    """The programs."""
    for name, program in PROGRAMS.items():
        print(f"{name}: {program.paper}")
        print(f"    {program.contents}")
        print(f"    about {program.quick} min with --quick, up to an hour without")
        print(f"    reads {', '.join(files_of(name))}")
    return 0


def content(path: Path) -> bytes:
    """What the checksum belongs to: the uncompressed content."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def check(folder: Path) -> int:
    """Compare the files of a folder with the checksums; 1 if one differs."""
    differs = 0
    for entry in sources():
        path = folder / entry["file"]
        if not path.is_file():
            state = f"missing; see {entry['urls'][0]}"
        elif hashlib.sha256(content(path)).hexdigest() == entry["sha256"]:
            state = "as measured"
        else:
            state, differs = "differs from the file that was measured", differs + 1
        print(f"{path.name}: {state}")
    return int(differs > 0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.replication", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"some of {', '.join(PROGRAMS)}")
    parser.add_argument("--all", action="store_true", help="all programs")
    parser.add_argument("--list", action="store_true", help="show the programs")
    parser.add_argument("--check", action="store_true", help="compare the files with their checksums")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and smaller tables")
    parser.add_argument("--data", metavar="DIR", help="folder of the tables (CRAFTC_DATA)")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="write tables and figures there")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in PROGRAMS]:
        parser.error(f"unknown program {unknown[0]!r}; choose from {', '.join(PROGRAMS)}")
    names = list(PROGRAMS) if options.all else options.names
    if options.list:
        return show()
    if options.check:
        folder = options.data or os.environ.get("CRAFTC_DATA")
        if folder is None:
            parser.error("--check needs a folder: --data DIR, or the environment variable CRAFTC_DATA")
        return check(Path(folder))
    if not names:
        parser.error("name a program, or use --all or --list")
    return run_all(names, options)


if __name__ == "__main__":
    sys.exit(main())
