"""`python -m binlake`: the program `binlake`, of the interpreter that is named."""

from __future__ import annotations

import sys

from binlake_program import main

if __name__ == "__main__":
    sys.exit(main())
