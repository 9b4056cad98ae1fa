"""The TOML file of `mirror --config`."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.errors import OptionError
from binlake.mirror.configuration import read_mirror_configuration

FILE = """
[mirror]
url = "mysql://repl@db1/"
lake = "lake"
tables = ["shop.*", "crm.people"]
exclude_tables = "shop.log_*"
round_bytes = "128MB"
compact = "off"
compact_deleted = 0.5

[mirror.spark]
"spark.master" = "local[4]"
"""


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mirror.toml"
    file.write_text(FILE)
    read = read_mirror_configuration(str(file))
    assert read.values == {
        "url": "mysql://repl@db1/",
        "lake": str(tmp_path / "lake"),
        "tables": ("shop.*", "crm.people"),
        "exclude_tables": ("shop.log_*",),
        "round_bytes": 128 << 20,
        "compact": "off",
        "compact_deleted": 0.5,
    }
    assert read.spark == {"spark.master": "local[4]"}


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("[mirror", "[mirrors", "is missing"),
        ('lake = "lake"\n', "", r"\[mirror\] lake: this key is missing"),
        ("repl@db1", "repl:secret@db1", "contains a password"),
        ("round_bytes", "round_byte", "did you mean round_bytes"),
        ('"128MB"', '"much"', "expected a size"),
        ("round_bytes", "interval_seconds = 0\nround_bytes", r"expected at least 0\.01 seconds"),
    ],
)
def test_mistakes(tmp_path: Path, before: str, after: str, why: str) -> None:
    file = tmp_path / "mirror.toml"
    file.write_text(FILE.replace(before, after))
    with pytest.raises(OptionError, match=why) as caught:
        read_mirror_configuration(str(file))
    assert "secret" not in str(caught.value)
