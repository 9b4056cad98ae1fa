"""The software bill of materials of a wheel, in CycloneDX, from what is installed here.

It lists binlake and every package that its dependencies and extras bring, with the versions of
requirements.lock. Packages that only extras need have the scope "optional". auditwheel adds
a bill of its own for the libraries that it puts into the wheel.
"""

from __future__ import annotations

import re
from collections import deque
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from uuid import UUID, uuid5

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

__all__ = ["software_bill"]

_OURS = "binlake"
_SPACE = UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
#: Extras that change what a user installs.
_EXTRAS = ("crypto", "mirror", "server", "spark")


def software_bill() -> str:
    """The bill as JSON; the same for the same versions."""
    required, optional = _reachable([()]), _reachable([(extra,) for extra in _EXTRAS])
    bom = Bom()
    root = _component(distribution(_OURS), None)
    bom.metadata.component = root
    found = {_OURS: root}
    for name, one in sorted({**optional, **required}.items()):
        if name != _OURS:
            scope = ComponentScope.REQUIRED if name in required else ComponentScope.OPTIONAL
            found[name] = _component(one, scope)
    bom.components = [part for part in found.values() if part is not root]
    for name, part in found.items():
        one = distribution(name)
        extras = _EXTRAS if name == _OURS else ()
        needed = [found[other] for other, _ in _needs(one, extras) if other in found]
        bom.register_dependency(part, [other for other in needed if other is not part])
    identity = " ".join(f"{name}=={distribution(name).version}" for name in found)
    bom.serial_number = uuid5(_SPACE, identity)
    bom.metadata.timestamp = None  # type: ignore[assignment]
    return JsonV1Dot6(bom).output_as_string(indent=1)


def _component(one: Distribution, scope: ComponentScope | None) -> Component:
    name = _normal(one.name)
    return Component(
        name=name,
        version=one.version,
        type=ComponentType.LIBRARY,
        scope=scope,
        purl=PackageURL("pypi", name=name, version=one.version),
        bom_ref=f"{name}=={one.version}",
    )


def _reachable(extras: list[tuple[str, ...]]) -> dict[str, Distribution]:
    """The installed distributions that binlake with these extras brings, by name."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = deque((_OURS, asked) for asked in extras)
    while waiting:
        name, asked = waiting.popleft()
        if (name, asked) in seen:
            continue
        seen.add((name, asked))
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue  # for another system
        found[_normal(name)] = one
        waiting += _needs(one, asked)
    return found


def _needs(one: Distribution, extras: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Names and extras of what a distribution requires on this system."""
    found = []
    for text in one.requires or ():
        needed = Requirement(text)
        environments = [{"extra": extra} for extra in ("", *extras)]
        if needed.marker is None or any(map(needed.marker.evaluate, environments)):
            found.append((_normal(needed.name), tuple(sorted(needed.extras))))
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
