"""Atomic replacement of single files, and of all files of a folder together."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_TEMPORARY = ".{}.{}.tmp"  # file name and a random word
_STAGE = ".craftc-{}.tmp"  # folder of the new files of a folder, with a random word
_ATTEMPTS = 10  # to remove a folder to which a writer has added a file meanwhile
_LOCK = ".craftc.lock"
_PATIENCE = 600.0  # seconds to wait for another process
_PAUSE = 0.05
_LOCKED_BYTE = 1 << 20  # Windows locks bytes and hides them from other processes

# ---- one file ----


@contextmanager
def replacing(
    path: str | os.PathLike[str], mode: str = "w", *, within: str | os.PathLike[str] | None = None
) -> Iterator[IO[Any]]:
    """Open a temporary file for writing; it replaces `path` when the block ends without an error.

    `path`: the file to write. Pipes and devices (``/dev/stdout``) are written directly. `mode`: "w" (UTF-8,
    without conversion of line ends) or "wb". `within`: folder of the temporary file, on the same file system;
    default: the folder of `path`.
    """
    target = Path(os.path.realpath(path))
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder; pass the name of a file.")
    if target.exists() and not target.is_file():
        with open(target, mode, **text) as file:
            yield file
        return
    folder = target.parent if within is None else Path(within)
    _remove_abandoned(folder, target.name)
    temporary = folder / _TEMPORARY.format(_short(target.name), secrets.token_hex(8))
    try:
        with _new_file(temporary, mode.replace("w", "x"), text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary)):
            error.filename = os.fspath(path)  # without a name: a full disk, for example
        raise
    _sync_folder(target.parent)


def _new_file(path: Path, mode: str, text: Mapping[str, Any]) -> IO[Any]:
    """A new file, locked until it is closed, as by the end of the process; no existing file, and no link."""
    while True:
        file = open(path, mode, **text)  # noqa: SIM115
        _lock(file.fileno())
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # before the lock, another process has taken it for an abandoned one


def _remove_abandoned(folder: Path, name: str) -> None:
    """Remove temporary files of a file whose process was killed; a process locks the file that it writes."""
    pattern = _TEMPORARY.format(glob.escape(_short(name)), "[0-9a-f]" * 16)
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _lock(descriptor, without=False):
                    path.unlink()
            finally:
                os.close(descriptor)


@contextmanager
def unfinished_files(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A new folder in `folder` for the temporary files of several processes, also on other machines.

    It disappears when the block ends. A process that is still writing in it then gets FileNotFoundError, and
    replaces nothing.
    """
    new = Path(folder) / _TEMPORARY.format("craftc", secrets.token_hex(8))
    try:
        new.mkdir()
    except OSError as error:
        error.filename = os.fspath(folder)
        raise
    try:
        yield new
    finally:
        _remove(new)


def _remove(folder: Path) -> None:
    """Remove a folder in which other processes may be writing; under a new name they do not find it."""
    aside = folder.with_name(_STAGE.format(secrets.token_hex(8)))
    try:
        os.rename(folder, aside)
    except OSError:  # Windows, while one of its files is open
        aside = folder
    for _ in range(_ATTEMPTS):
        shutil.rmtree(aside, ignore_errors=True)
        if not aside.exists():
            break


def _short(name: str) -> str:
    """The beginning of a name that leaves room for the rest of a temporary one."""
    return name.encode(errors="surrogateescape")[:200].decode(errors="ignore")


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder written to the disk, where the system can do that."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # file systems that cannot
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- all files of a folder ----


@contextmanager
def replacing_together(
    folder: str | os.PathLike[str], former: Collection[str] = (), waiting: Callable[[str], None] | None = None
) -> Iterator[Path]:
    """A new folder for files that replace files of `folder` together when the block ends without an error.

    One process at a time writes into a folder; others wait for it. After an error all old files are as they
    were. A process that is killed while files are exchanged leaves files of one run only; the others of this
    run are missing, and the next process to write removes the rest.

    `folder`: created where it does not exist. Its other files stay; links that are replaced
    become files. `former`: files of former runs, which are removed where the block writes no new ones.
    `waiting`: is called once with a sentence about the process that is writing.

    Yields the folder for the new files, which may lie in folders of their own.

    Raises OSError: a file cannot be written or replaced, or another process has been writing for ten
    minutes.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder, waiting):
        for left in folder.glob(_STAGE.format("*")):
            _remove(left)
        stage = folder / _STAGE.format(secrets.token_hex(8))
        new, old = stage / "new", stage / "old"
        try:
            new.mkdir(parents=True)
            try:
                yield new
            except OSError as error:
                if error.errno is not None and str(error.filename).startswith(str(new)):
                    error.filename = str(folder) + str(error.filename)[len(str(new)) :]
                raise
            written = sorted(str(path.relative_to(new)) for path in new.rglob("*") if not path.is_dir())
            _exchange(folder, new, old, written, {*written, *former})
        finally:
            _remove(stage)


def _exchange(
    folder: Path, new: Path, old: Path, written: Collection[str], replaced: Collection[str]
) -> None:
    """Move the files `replaced` from `folder` to `old`, and then those `written` from `new` to `folder`; an
    error moves all back.

    The old files go first: no moment has files of two runs.
    """
    present = [name for name in sorted(replaced) if os.path.lexists(folder / name)]
    for name in present:
        if not (folder / name).is_symlink() and not (folder / name).is_file():
            raise FileExistsError(
                f"{os.fspath(folder / name)!r} is no file and cannot be replaced; rename it, or pass another "
                "folder."
            )
    moves = [(folder / name, old / name) for name in present] + [
        (new / name, folder / name) for name in written
    ]
    done = []
    try:
        for source, target in moves:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(source, target)
            done.append((source, target))
    except BaseException:
        for source, target in reversed(done):
            os.rename(target, source)
        raise
    for parent in sorted({(folder / name).parent for name in replaced}, reverse=True):
        if parent != folder and parent.is_dir():
            with contextlib.suppress(OSError):  # it holds other files
                parent.rmdir()
        if parent.is_dir():
            _sync_folder(parent)


@contextmanager
def _locked(folder: Path, waiting: Callable[[str], None] | None) -> Iterator[None]:
    """Hold the lock of a folder; the end of a process frees its lock."""
    path = folder / _LOCK
    deadline = time.monotonic() + _PATIENCE
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            taken = _lock(descriptor)
            if taken and _is_current(descriptor, path):
                break
            if not taken:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace") if hasattr(os, "pread") else ""
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if taken:
            continue  # the process that had it has removed this file
        sentence = f"{holder or 'another process'} is writing to {os.fspath(folder)!r}"
        if time.monotonic() > deadline:
            raise BlockingIOError(f"{sentence} and does not end; pass another folder.")
        if waiting is not None:
            waiting(f"waiting because {sentence}.")
            waiting = None
        time.sleep(_PAUSE)
    try:
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        except OSError as error:
            error.filename = os.fspath(path)
            raise
        yield
    finally:
        if os.name == "posix":
            path.unlink(missing_ok=True)
        os.close(descriptor)
        if os.name != "posix":
            with contextlib.suppress(OSError):  # another process has opened it
                path.unlink()


def _is_current(descriptor: int, path: Path) -> bool:
    """Whether a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(descriptor: int, without: bool = True) -> bool:
    """Lock a file without waiting; False if another process has it. `without`: the answer where the file
    system has no locks.
    """
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True
    import errno
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        return without
    return True
