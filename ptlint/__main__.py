"""`python -m ptlint`."""

from __future__ import annotations

import sys

from ptlint.cli import main

if __name__ == "__main__":
    sys.exit(main())
