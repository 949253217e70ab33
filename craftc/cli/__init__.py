"""The command ``craftc``: cluster a table file, and assign new rows to the clusters.

craftc cluster TABLE [--target COL] [--out DIR]
craftc predict MODEL TABLE [--out FILE]
craftc info
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from craftc.cli import report
from craftc.cli.commands import in_options, parser

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
        options = parser().parse_args(argv)
        options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the interpreter flushes stdout again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        print(f"craftc: {_message(error)}", file=sys.stderr)
        return 2
    return 0


def _message(error: BaseException) -> str:
    """An error as one line of text."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."
    if isinstance(error, MemoryError):
        return "the table does not fit into memory."
    return report.clean(in_options(str(error)))
