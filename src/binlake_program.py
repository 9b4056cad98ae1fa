"""The program `binlake`: hides the passwords on its command line, then imports and runs the command."""

from __future__ import annotations

import sys

from binlake_passwords import hide_passwords


def main() -> int:
    """Run the program; returns its exit code."""
    hide_passwords(sys.argv)
    from binlake.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
