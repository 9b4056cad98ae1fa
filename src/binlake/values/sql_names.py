"""Names in SQL, with and without quotes."""

from __future__ import annotations

__all__ = ["quoted_name", "unquoted_name"]


def quoted_name(*parts: str) -> str:
    """A name in backticks; several parts are separated by periods."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def unquoted_name(name: str) -> str:
    """A name without its quotes: backticks, or double quotes as ANSI_QUOTES allows them."""
    quote = name[:1]
    return name[1:-1].replace(quote * 2, quote) if quote in ("`", '"') else name
