"""The command ``craftc``: clusters of a table file, and new rows put into them.

craftc cluster TABLE [--target COL] [--out DIR]
craftc predict MODEL TABLE [--out FILE]
craftc info
"""

from craftc.cli.commands import main

__all__ = ["main"]
