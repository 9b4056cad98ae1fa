"""Long texts in messages."""

from __future__ import annotations

from binlake.printable import shortened, truncated


def test_a_truncated_text_has_at_most_the_given_characters() -> None:
    assert truncated("abcdef", 6) == "abcdef"
    assert truncated("abcdefg", 6) == "abcde…"
    assert len(truncated("x" * 1000, 80)) == 80


def test_a_shortened_text_keeps_its_beginning_and_end() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("a" * 90 + "z" * 30, 100) == f"{'a' * 75} […20 characters…] {'z' * 25}"
