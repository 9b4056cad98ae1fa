"""Checks of paths, URIs and URLs before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.errors import OptionError, SourceError
from binlake.source.locations import check_no_password, check_visible


def test_path_not_visible(tmp_path: Path) -> None:
    check_visible(str(tmp_path))
    check_visible(f"file://{tmp_path}")
    check_visible("s3a://bucket/binlog.000001")
    with pytest.raises(
        SourceError, match=r"host \S+ does not see .*/gone; local paths are read where"
    ):
        check_visible(str(tmp_path / "gone"))


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:secret@db1/",
        "mysql://me@db1/,mysql://me:secret@db2/",
        "mysql://me@db1/?password=secret",
        "s3://key:secret@bucket/logs",
    ],
)
def test_a_url_with_a_password_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match="option url: the URL contains a password") as caught:
        check_no_password(url, "url")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["mysql://me@db1:3306/", "s3a://bucket/logs", "/logs/me:x@db1", "-"]
)
def test_a_url_without_a_password_is_accepted(url: str) -> None:
    check_no_password(url, "url")
