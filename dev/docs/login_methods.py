"""The table of login methods in docs/live.md."""

from __future__ import annotations

from binlake.format.auth_plugins import (
    CACHING_SHA2,
    CLEAR,
    DIALOG,
    ED25519,
    NATIVE,
    OLD,
    PARSEC,
    SHA256,
)
from binlake.source.replica.login_rules import CACHING_SHA2_FULL, RULES, ChannelKind

#: The methods as the documentation lists them, and what servers use them for.
METHODS = {
    NATIVE: "`mysql_native_password`",
    CACHING_SHA2: "`caching_sha2_password`, fast: the server remembers the login",
    CACHING_SHA2_FULL: "`caching_sha2_password`, full: first login after a restart or `FLUSH PRIVILEGES`",
    SHA256: "`sha256_password`",
    ED25519: "MariaDB's `ed25519`",
    PARSEC: "MariaDB's `parsec`",
    CLEAR: "`mysql_clear_password`: PAM and LDAP on MySQL, PAM on MariaDB",
    DIALOG: "`dialog`: PAM on MariaDB",
    OLD: "`mysql_old_password`",
}


def rules_table() -> list[str]:
    """The table in Markdown, for the documentation."""
    head = ["login method", *(channel.value for channel in ChannelKind)]
    rows = [[text, *(RULES[name][c].value for c in ChannelKind)] for name, text in METHODS.items()]
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
