"""Text of single statements."""

from __future__ import annotations

import pytest

from binlake.events.common.user_var import UserVarEvent
from binlake.format.event_types import USER_VAR_EVENT
from binlake.replay.statement_events import user_variable
from binlake.values.frame import Frame


@pytest.mark.parametrize(
    ("flavour", "name"),
    [("mysql", "utf8mb4_croatian_ci"), ("mariadb", "utf8mb4_croatian_mysql561_ci")],
)
def test_a_collation_has_the_name_of_its_flavour(flavour: str, name: str) -> None:
    """MariaDB gives the name of number 245 to another collation."""
    event = UserVarEvent(Frame(4, USER_VAR_EVENT, 0, 0, 1, 0, 0), b"v", 0, 245, b"a")
    said = user_variable(event, "X'{}'", flavour)
    assert said.startswith(f"SET @`v`:=_utf8mb4 X'61' COLLATE `{name}`".encode())
