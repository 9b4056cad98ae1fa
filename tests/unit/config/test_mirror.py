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


def test_the_names_of_flags(tmp_path: Path) -> None:
    """Those who know the command write them. Some keys have other names."""
    names = {
        "verify_every": "verify_every_s",
        "keep_snapshots": "keep_snapshots_s",
        "keep_tags": "keep_tags_s",
        "max_rate": "max_rows_per_s",
        "interval": "interval_seconds",
    }
    file = tmp_path / "mirror.toml"
    added = "".join(f"{name} = 9000\n" for name in names)
    added += 'table = "a.b"\nsoft_delete = ["c.d"]\n'
    file.write_text('[mirror]\nurl = "mysql://db1/"\nlake = "/lake"\n' + added)
    assert read_mirror_configuration(str(file)).values == {
        "url": "mysql://db1/",
        "lake": "/lake",
        "tables": ("a.b",),
        "soft_delete_tables": ("c.d",),
        **dict.fromkeys(names.values(), 9000),
    }


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("[mirror", "[mirrors", "is missing"),
        ('lake = "lake"\n', "", r"\[mirror\] lake: this key is missing"),
        ("repl@db1", "repl:secret@db1", "contains a password"),
        ("round_bytes", "round_byte", "did you mean round_bytes"),
        ('"128MB"', '"much"', "expected a size"),
        (
            "round_bytes",
            "max_rate = 5\nmax_rows_per_s = 5\nround_bytes",
            "max_rate: this is another name of max_rows_per_s",
        ),
        ("round_bytes", "verify_every = 0.5\nround_bytes", "verify_every: expected a whole number"),
        ("round_bytes", "interval_seconds = 0\nround_bytes", r"expected at least 0\.01 seconds"),
    ],
)
def test_mistakes(tmp_path: Path, before: str, after: str, why: str) -> None:
    file = tmp_path / "mirror.toml"
    file.write_text(FILE.replace(before, after))
    with pytest.raises(OptionError, match=why) as caught:
        read_mirror_configuration(str(file))
    assert "secret" not in str(caught.value)
