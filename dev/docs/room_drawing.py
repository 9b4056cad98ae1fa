"""Draw which rooms of `src/binlake` import which, as SVG for the documentation site.

Imports that follow from others are left out: if `spark` imports `table` and `table` imports
`stream`, no line goes from `spark` to `stream`. The SVG is written here because graph libraries choose the places of the boxes
themselves, and a reader should see the rooms in the order of ARCHITECTURE.md.
"""

from __future__ import annotations

import ast
import re
from html import escape
from pathlib import Path

__all__ = ["drawing", "imports_of_rooms", "needed"]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "binlake"

_ROW, _BOX, _LEFT, _WIDTH, _STEP = 46, 34, 190, 760, 26  # pixels


def _rooms() -> list[str]:
    """The rooms, in the order of the table in ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `src/binlake/(\w+)/` \|", text, re.MULTILINE)


def _modules(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def imports_of_rooms() -> dict[str, set[str]]:
    """Each room, in the order of the data flow, and the rooms that its modules import."""
    rooms = _rooms()
    imports: dict[str, set[str]] = {}
    for room in rooms:
        names: set[str] = set()
        for path in (SOURCE / room).rglob("*.py"):
            names |= _modules(ast.parse(path.read_text(encoding="utf-8")))
        parts = (name.split(".") for name in names if name.startswith("binlake."))
        imports[room] = {part[1] for part in parts} & set(rooms) - {room}
    return imports


def needed(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports that do not follow from others (the transitive reduction)."""

    def reachable(room: str) -> set[str]:
        return imports[room].union(*(reachable(other) for other in imports[room]))

    return {
        room: others - set().union(*(reachable(other) for other in others))
        for room, others in imports.items()
    }


def _purpose(room: str) -> str:
    """The first sentence of the room's docstring."""
    docstring = ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text())) or ""
    line = docstring.splitlines()[0]
    return re.split(r"(?<=[a-z])[.:] ", line)[0].rstrip(".:").replace("`", "")


def _arc(low: int, high: int) -> str:
    """A line on the left from the box of one row to that of a row above, ending in an arrow."""
    depth = _STEP + 10 * (low - high) if low - high > 1 else _STEP // 2
    start, end = low * _ROW + _BOX // 2 - 5, high * _ROW + _BOX // 2 + 5
    out = max(8, _LEFT - depth)
    return (
        f'<path d="M{_LEFT} {start} C{out} {start} {out} {end} {_LEFT - 7} {end}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.55" stroke-width="1.4" marker-end="url(#arrow)"/>'
    )


def drawing() -> str:
    """One `<svg>` element. It takes the colour of the text around it."""
    edges = needed(imports_of_rooms())
    rows = {room: number for number, room in enumerate(edges)}
    parts = [
        (
            f'<svg class="rooms" viewBox="0 0 {_WIDTH} {_ROW * len(rows)}" role="img" '
            'xmlns="http://www.w3.org/2000/svg" font-size="14" font-family="inherit">'
        ),
        "<title>The rooms of binlake and their imports</title>",
        (
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>'
        ),
    ]
    for room, others in edges.items():
        parts += [_arc(rows[room], rows[other]) for other in sorted(others)]
    for room, row in rows.items():
        top = row * _ROW
        parts += [
            f'<rect x="{_LEFT}" y="{top}" width="92" height="{_BOX}" rx="6" fill="#2f6f8f"/>',
            (
                f'<text x="{_LEFT + 46}" y="{top + 22}" text-anchor="middle" fill="#fff" '
                f'font-weight="600">{room}</text>'
            ),
            f'<text x="{_LEFT + 106}" y="{top + 22}" fill="currentColor">{escape(_purpose(room))}</text>',
        ]
    return "\n".join([*parts, "</svg>"])
