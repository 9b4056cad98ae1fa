"""Known names that resemble an unknown one, for hints: `did you mean orders?`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: The beginning of each question.
DID_YOU_MEAN = "did you mean "


def similar_names(
    wanted: str, known: Iterable[str], *, most: int = 1, similarity: float = 0.6
) -> list[str]:
    """Return known names that resemble a name in any case, the most similar one first.

    At most `most` names, whose `similarity` (0 to 1) is at least this.
    """
    from difflib import get_close_matches  # few runs need it

    spelled: dict[str, str] = {}
    for name in known:
        spelled.setdefault(name.casefold(), name)
    near = get_close_matches(wanted.casefold(), spelled, n=most, cutoff=similarity)
    return [spelled[name] for name in near]


def did_you_mean(wanted: str, known: Iterable[str], *, most: int = 1) -> str:
    """Return a question with the names that resemble `wanted`; an empty text if there are none."""
    return question_of(similar_names(wanted, known, most=most))


def question_of(names: Sequence[str]) -> str:
    """Return the question whether the user meant one of some names; an empty text without names."""
    return f"{DID_YOU_MEAN}{' or '.join(names)}?" if names else ""
