"""Runs the notebooks in examples/ as programs, cell by cell."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["EXAMPLES", "ROOT", "run_notebook"]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def run_notebook(name: str) -> dict[str, object]:
    """Run the cells of a notebook in the working directory; return its variables."""
    cells = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]
    variables: dict[str, object] = {"__name__": "notebook"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), f"{name}, cell {number}", "exec")
            exec(code, variables)  # noqa: S102
    return variables
