"""Values that two processes send each other, even if they run different builds of the package."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from binlake.errors import SourceError


def installed_version() -> str | None:
    """The version of the installed package; None where it runs from a source tree alone."""
    from importlib import metadata  # takes longer than reading a small log

    try:
        return metadata.version("binlake")
    except metadata.PackageNotFoundError:
        return None


class PickledByName:
    """Base of dataclasses with slots that travel between processes.

    Python restores such a dataclass by the order of its fields, so another build could assign
    values to the wrong fields. This class stores them by name.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return _restored, (type(self), values)


def _restored(kind: type[Any], values: dict[str, Any]) -> Any:
    """The value that another process has sent. Raises SourceError if this build has other fields."""
    known = {field.name for field in fields(kind)}
    if unknown := sorted(values.keys() - known):
        raise SourceError(
            f"another build of binlake has sent {kind.__name__} with the field {unknown[0]}, which "
            "this build does not have",
            hint="install the same version on the driver and on every executor",
        )
    return kind(**values)
