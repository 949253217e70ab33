"""The manifest of a folder of results: which files are done, so that a second run continues where the first
ended.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from craftc._about import version
from craftc._common.atomic_write import replacing
from craftc.cli.results import results_in

NAME = "manifest.json"


@dataclass(frozen=True)
class Entry:
    """One file of the table, and its results."""

    file: str
    result: str  # relative to the folder of the manifest
    state: str  # {"done", "failed", "waiting"}
    rows: int | None = None
    bytes: int | None = None  # of the file, when its rows were read
    modified: int | None = None  # of the file, nanoseconds since 1970
    error: str | None = None


def checksum_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Manifest:
    """The states of the files of one table, written after every change.

    `settings`: what the results depend on besides the files; those of other settings are not continued.
    """

    def __init__(self, folder: Path, results: Mapping[str, Path], settings: Mapping[str, object]) -> None:
        self._path, self._settings = folder / NAME, {"craftc": version(), **settings}
        former_settings, former = self._read()
        own = {os.path.relpath(each, folder) for each in results.values()}
        #: Results of an earlier run that are still there and that this one does not write.
        self.others = sorted(self._present(former.values()).difference(own))
        if former_settings != self._settings:
            former = {}
        self.entries = dict[str, Entry]()
        for file, result in results.items():
            name = os.path.relpath(result, folder)
            before = former.get(file)
            done = before is not None and before.result == name and self._is_done(before, result)
            self.entries[file] = before if done and before is not None else Entry(file, name, "waiting")

    @property
    def left(self) -> list[str]:
        """The files that are not done."""
        return [file for file, entry in self.entries.items() if entry.state != "done"]

    @property
    def done(self) -> list[Entry]:
        """The files that are done."""
        return [entry for entry in self.entries.values() if entry.state == "done"]

    def finished(self, file: str, rows: int) -> None:
        """Results of a file are complete."""
        entry, found = self.entries[file], os.stat(file)
        self.entries[file] = Entry(file, entry.result, "done", rows, found.st_size, found.st_mtime_ns)
        self._write()

    def failed(self, file: str, error: str) -> None:
        """Results of a file could not be written."""
        self.entries[file] = Entry(file, self.entries[file].result, "failed", error=error)
        self._write()

    def _read(self) -> tuple[object, dict[str, Entry]]:
        """The settings and the entries of the run before."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            return content["settings"], {each["file"]: Entry(**each) for each in content["files"]}
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # none, or of another program
            return None, {}

    def _present(self, former: Iterable[Entry]) -> set[str]:
        """The results in the folder: those of the run before, and others that begin with our columns."""
        folder = self._path.parent
        return {each.result for each in former if (folder / each.result).exists()}.union(results_in(folder))

    @staticmethod
    def _is_done(entry: Entry, result: Path) -> bool:
        """Whether the results are there, and those of the file as it is now."""
        if entry.state != "done" or not result.exists():
            return False
        found = os.stat(entry.file)
        return (found.st_size, found.st_mtime_ns) == (entry.bytes, entry.modified)

    def _write(self) -> None:
        files = [
            {name: value for name, value in asdict(entry).items() if value is not None}
            for entry in self.entries.values()
        ]
        with replacing(self._path) as file:
            json.dump({"settings": self._settings, "files": files}, file, indent=1)
            file.write("\n")
