"""``python -m craftc``."""

import sys

from craftc.cli import main

if __name__ == "__main__":
    sys.exit(main())
