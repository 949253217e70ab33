"""The command ``craftc``: cluster a table file, and assign new rows to the clusters.

craftc cluster TABLE [--target COL] [--out DIR]
craftc predict MODEL TABLE [--out FILE]
craftc info

All imports that take time are made when a command runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; None: those of the process.

    Returns
    -------
    int
        Exit code: 0; 2 after an error message on stderr; 130 after Ctrl-C; 141 if the reader of the output closed the pipe.
    """
    for stream in (sys.stdout, sys.stderr):  # "?" replaces characters that the terminal cannot encode
        if hasattr(stream, "reconfigure") and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    try:
        _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the interpreter flushes stdout again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        from craftc.cli.text import clean

        print(f"craftc: {clean(_message(error))}", file=sys.stderr)
        return 2
    return 0


def _run(argv: Sequence[str]) -> None:
    """Parse the arguments and run the command."""
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


def _problem(error: Any) -> str:
    """What is wrong with an argument, after the name of its option."""
    name = error.param.opts[0] if getattr(error, "param", None) is not None else ""
    return f"{name}: {error.message}" if name.startswith("-") and error.message else str(error.format_message())


def _message(error: BaseException) -> str:
    """An error as one line of text."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."
    if isinstance(error, MemoryError):
        return "the table does not fit into memory."
    from craftc.cli.words import in_options

    return in_options(str(error))
