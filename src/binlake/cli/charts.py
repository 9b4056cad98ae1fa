"""Small charts as inline SVG: no script, no library, nothing loaded from elsewhere.

Colours are classes that the page defines, so that a chart follows its light or dark scheme.
Every bar has a title, which browsers show as a tooltip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

__all__ = ["Slot", "bars", "timeline"]

_WIDTH, _HEIGHT = 960, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 10, 10, 24
_MOST_SLOTS = 400
_BAR_HEIGHT, _LABEL_WIDTH, _VALUE_WIDTH = 22, 300, 90


class Slot(NamedTuple):
    """A stretch of time that begins at `start` (seconds), and its values, one per series."""

    start: int
    values: tuple[int, ...]


def timeline(
    slots: Sequence[Slot],
    unit_seconds: int,
    series: Sequence[str],
    number: Callable[[int], str],
    time: Callable[[int], str],
) -> str:
    """Stacked bars over time; slots that are missing have nothing. `series` are their names,
    which are CSS classes too; `number` and `time` (of seconds) write values and times.
    """
    first, count = slots[0].start, (slots[-1].start - slots[0].start) // unit_seconds + 1
    together = -(-count // _MOST_SLOTS)
    sums: dict[int, list[int]] = {}
    for slot in slots:
        entry = sums.setdefault((slot.start - first) // unit_seconds // together, [0] * len(series))
        for place, value in enumerate(slot.values):
            entry[place] += value
    most = _ceiling(max(map(sum, sums.values())))
    width = (_WIDTH - _LEFT - _RIGHT) / -(-count // together)
    height = _HEIGHT - _TOP - _BOTTOM
    parts = [_axis(most, height, number)]
    for place, values in sorted(sums.items()):
        begun = first + place * together * unit_seconds
        said = ", ".join(f"{number(v)} {name}" for v, name in zip(values, series, strict=True) if v)
        title = f"<title>{escape(f'{time(begun)}: {said or number(0)}')}</title>"
        x, y = _LEFT + place * width, float(_TOP + height)
        for name, value in zip(series, values, strict=True):
            tall = value / most * height
            y -= tall
            parts.append(
                f'<rect class="{escape(name)}" x="{x:.2f}" y="{y:.2f}" '
                f'width="{max(width * 0.9, 0.5):.2f}" height="{tall:.2f}">{title}</rect>'
            )
    last = first + count * unit_seconds
    for at, anchor, moment in (
        (_LEFT, "start", first),
        ((_LEFT + _WIDTH - _RIGHT) / 2, "middle", (first + last) // 2),
        (_WIDTH - _RIGHT, "end", last),
    ):
        parts.append(_text(at, _HEIGHT - 6, time(moment), anchor))
    return _svg(_WIDTH, _HEIGHT, parts)


def bars(
    items: Sequence[tuple[str, tuple[int, ...]]],
    series: Sequence[str],
    number: Callable[[int], str],
) -> str:
    """A horizontal bar per item: its name, its values stacked, and their sum."""
    most = max((sum(values) for _, values in items), default=0) or 1
    room = _WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    parts = []
    for row, (label, values) in enumerate(items):
        y, x = row * _BAR_HEIGHT, float(_LABEL_WIDTH)
        said = ", ".join(f"{number(v)} {name}" for v, name in zip(values, series, strict=True) if v)
        title = f"<title>{escape(f'{label}: {said or number(0)}')}</title>"
        shown = label if len(label) <= 42 else label[:20] + "…" + label[-21:]
        parts.append(_text(_LABEL_WIDTH - 8, y + 15, shown, "end"))
        for name, value in zip(series, values, strict=True):
            wide = value / most * room
            parts.append(
                f'<rect class="{escape(name)}" x="{x:.2f}" y="{y + 3}" width="{wide:.2f}" '
                f'height="{_BAR_HEIGHT - 6}">{title}</rect>'
            )
            x += wide
        parts.append(_text(x + 6, y + 15, number(sum(values)), "start"))
    return _svg(_WIDTH, max(len(items), 1) * _BAR_HEIGHT, parts)


def _axis(most: int, height: int, number: Callable[[int], str]) -> str:
    lines = []
    for quarter in range(0, 5, 2):
        y = _TOP + height - height * quarter / 4
        lines.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(_text(_LEFT - 6, y + 4, number(most * quarter // 4), "end"))
    return "".join(lines)


def _ceiling(value: int) -> int:
    """The next round number, which can be halved: 4, 6, 8, 10, 20, 40 …"""
    size = 1
    while True:
        for step in (4, 6, 8, 10, 20):
            if value <= step * size:
                return step * size
        size *= 10


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(parts)}</svg>'
