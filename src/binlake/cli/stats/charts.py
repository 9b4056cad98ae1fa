"""Small charts as inline HTML and SVG: no script, no library, nothing loaded from elsewhere.

Text is HTML, so that it keeps its size on a narrow page; only the bars of a timeline are SVG,
which stretches. Colours are classes that the page defines, so that a chart follows its light or
dark scheme. Every bar has a title, which browsers show as a tooltip. `STYLE` is the style sheet
that the charts need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

__all__ = ["STYLE", "Slot", "bars", "timeline"]

STYLE = """
.plot{display:grid;grid-template-columns:minmax(56px,max-content) 1fr;column-gap:8px;
color:var(--soft);font-size:12px;margin-top:14px;break-inside:avoid}
.plot .scale{display:flex;flex-direction:column;justify-content:space-between;text-align:right;
margin:-.7em 0}
.plot svg{width:100%;height:180px;display:block;overflow:visible}
.plot line{stroke:var(--line);vector-effect:non-scaling-stroke}
.plot .times{grid-column:2;display:flex;justify-content:space-between;gap:8px;padding-top:4px}
.bars{display:grid;grid-template-columns:minmax(80px,max-content) 1fr;gap:4px 10px;margin:6px 0;
break-inside:avoid}
.bars .name{color:var(--soft);text-align:right;max-width:340px;overflow-wrap:anywhere}
.bars .bar{display:flex;align-items:center;gap:8px;white-space:nowrap}
.bars .track{display:flex;flex:0 1 auto;height:16px}
.bars .track span{min-width:1px;height:16px}
@media (max-width:640px){.bars{grid-template-columns:1fr;gap:0 0}
.bars .name{text-align:left;margin-top:6px;max-width:none}.plot svg{height:120px}
.plot .times span:nth-child(2){display:none}}
"""

_WIDTH, _HEIGHT = 1000, 180
_MOST_SLOTS = 400
#: The share of a row that the longest bar takes; its value follows it.
_LONGEST_PERCENT = 80


class Slot(NamedTuple):
    """A bucket of time that begins at `start_us`, and its values, one per series."""

    start_us: int
    values: tuple[int, ...]


def timeline(
    slots: Sequence[Slot],
    unit_us: int,
    series: Sequence[str],
    number: Callable[[int], str],
    time: Callable[[int], str],
) -> str:
    """Stacked bars over time; missing slots are empty. `series` are names and CSS classes;
    `number` and `time` (of microseconds) write values and times.
    """
    first = slots[0].start_us
    count = (slots[-1].start_us - first) // unit_us + 1
    together = -(-count // _MOST_SLOTS)
    sums: dict[int, list[int]] = {}
    for slot in slots:
        bar = (slot.start_us - first) // unit_us // together
        entry = sums.setdefault(bar, [0] * len(series))
        for ordinal, value in enumerate(slot.values):
            entry[ordinal] += value
    most = _ceiling(max(map(sum, sums.values())))
    width = _WIDTH / -(-count // together)
    parts = [
        f'<line x1="0" x2="{_WIDTH}" y1="{y:g}" y2="{y:g}"/>' for y in (0, _HEIGHT / 2, _HEIGHT)
    ]
    for bar, values in sorted(sums.items()):
        text = _title(time(first + bar * together * unit_us), values, series, number)
        title = f"<title>{escape(text)}</title>"
        y = float(_HEIGHT)
        for name, value in zip(series, values, strict=True):
            tall = value / most * _HEIGHT
            y -= tall
            parts.append(
                f'<rect class="{escape(name)}" x="{bar * width:.2f}" y="{y:.2f}" '
                f'width="{max(width * 0.9, 0.5):.2f}" height="{tall:.2f}">{title}</rect>'
            )
    last = first + count * unit_us
    scale = "".join(f"<span>{escape(number(value))}</span>" for value in (most, most // 2, 0))
    times = "".join(f"<span>{escape(time(at))}</span>" for at in (first, (first + last) // 2, last))
    return (
        f'<div class="plot"><div class="scale">{scale}</div>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img">'
        f'{"".join(parts)}</svg><div class="times">{times}</div></div>'
    )


def bars(
    items: Sequence[tuple[str, tuple[int, ...]]],
    series: Sequence[str],
    number: Callable[[int], str],
) -> str:
    """A horizontal bar per item: its name, its values stacked, and their sum."""
    most = max((sum(values) for _, values in items), default=0) or 1
    rows = []
    for label, values in items:
        title = _title(label, values, series, number)
        share = sum(values) / most * _LONGEST_PERCENT
        segments = "".join(
            f'<span class="{escape(name)}" style="flex:{value}"></span>'
            for name, value in zip(series, values, strict=True)
            if value
        )
        rows.append(
            f'<span class="name">{escape(label)}</span>'
            f'<span class="bar" title="{escape(title)}">'
            f'<span class="track" style="width:{share:.2f}%">{segments}</span>'
            f"<span>{escape(number(sum(values)))}</span></span>"
        )
    return f'<div class="bars">{"".join(rows)}</div>'


def _title(
    label: str, values: Sequence[int], series: Sequence[str], number: Callable[[int], str]
) -> str:
    parts = [f"{number(v)} {name}" for v, name in zip(values, series, strict=True) if v]
    return f"{label}: {', '.join(parts) or number(0)}"


def _ceiling(value: int) -> int:
    """The next round number that can be halved: 4, 6, 8, 10, 20, 40 …"""
    size = 1
    while True:
        for step in (4, 6, 8, 10, 20):
            if value <= step * size:
                return step * size
        size *= 10
