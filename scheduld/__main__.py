"""`python -m scheduld` is the `scheduld` command."""

from __future__ import annotations

import sys

from scheduld.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
