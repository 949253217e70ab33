"""The command ``craftc``: cluster a table file, and assign new rows to the clusters.

::

    craftc cluster TABLE [--target COL] [--out DIR]
    craftc predict MODEL TABLE [--out FILE]
    craftc export MODEL --sql DIALECT | --onnx --out FILE
    craftc compare MODEL TABLE [--json]
    craftc refit MODEL TABLE [--out DIR] [--keep-clusters]
    craftc info [MODEL] [--json]

All imports that take time are made when a command runs.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

__all__ = ["main"]

_TRACEBACK = "CRAFTC_TRACEBACK"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0; 2 after an error in the input, 3 after a defect of craftc, and 4 after drift beyond --fail-on-drift,
    each with a message on stderr; 130 after Ctrl-C; 143 after SIGTERM; 141 if the reader of the output closed
    the pipe. With the environment variable CRAFTC_TRACEBACK, tracebacks are printed above the messages.
    `argv` None: the arguments of the process.
    """
    _prepare_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    with _caught_signals() as signals:
        try:
            _run(words)
            sys.stdout.flush()
        except KeyboardInterrupt:
            return 128 + (signals or [signal.SIGINT])[0]
        except BrokenPipeError:
            _drop_output()
            return 141
        except Exception as error:
            if signals:  # compiled modules that are being imported turn KeyboardInterrupt into another error
                return 128 + signals[0]
            return _report(error, as_json="--log=json" in words or ("--log", "json") in pairwise(words))
        finally:
            if argv is not None:  # the process goes on; one that ends needs no garbage collection
                gc.unfreeze()
    return 0


def _prepare_streams() -> None:
    """Replace closed streams by os.devnull, and characters that a terminal cannot encode by "?"."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure") and stream.errors == "strict":
            stream.reconfigure(errors="replace")


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM; a plain KeyboardInterrupt that passes through `exec` changes the exit code."""


@contextmanager
def _caught_signals() -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM raise KeyboardInterrupt; yields the signals received so far."""
    arrived: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        raise _Interrupted

    in_main_thread = threading.current_thread() is threading.main_thread()
    standard = {
        number: handler
        for number in (_SIGNALS if in_main_thread else ())
        if (handler := signal.getsignal(number)) in (signal.SIG_DFL, signal.default_int_handler)
    }
    try:
        for number in standard:
            signal.signal(number, interrupt)
        yield arrived
    finally:
        for number, handler in standard.items():
            signal.signal(number, handler)


def _run(argv: Sequence[str]) -> None:
    try:
        import click
        import rich  # noqa: F401  # needed when a command runs
    except ImportError as error:
        raise ImportError("the command line needs click and rich: pip install 'craftc[app]'.") from error
    from craftc.cli.options import craftc

    try:
        with craftc.make_context("craftc", list(argv)) as context:
            craftc.invoke(context)
    except click.exceptions.Exit:
        pass  # after --help or --version
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "craftc"
        raise ValueError(f"{_problem(error).rstrip('.')} (see {command} --help)") from error


def _problem(error: click.UsageError) -> str:
    """The problem with an argument, after the name of its option."""
    param: click.Parameter | None = getattr(error, "param", None)
    name = "" if param is None else param.opts[0]
    return f"{name}: {error.message}" if name.startswith("-") and error.message else error.format_message()


# ---- errors ----


def _report(error: Exception, as_json: bool) -> int:
    """Print one line about an error; returns the exit code."""
    from craftc.cli.arguments import DriftError, clean, in_options
    from craftc.cli.errors import is_expected, message_of
    from craftc.cli.log import json_line

    if os.environ.get(_TRACEBACK):
        import traceback

        traceback.print_exception(error)
    expected = is_expected(error)
    text = in_options(message_of(error))
    if not expected:
        printed = os.environ.get(_TRACEBACK)
        how = "see the traceback above" if printed else f"{_TRACEBACK}=1 prints the traceback"
        text = f"this is a defect of craftc, please report it ({how}): {type(error).__name__}: {error}"
    with suppress(OSError):  # stderr is a closed pipe or on a full disk: the exit code remains
        line = clean(text)
        print(json_line("error", message=line) if as_json else f"craftc: {line}", file=sys.stderr)
    if isinstance(error, OSError):
        try:  # of a full device: the interpreter flushes stdout again when it exits
            sys.stdout.flush()
        except OSError:
            _drop_output()
    return 4 if isinstance(error, DriftError) else 2 if expected else 3


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
