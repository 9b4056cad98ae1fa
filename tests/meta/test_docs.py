"""The pages say what is there: links lead somewhere, examples run, nothing is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from binlake.cli.main import COMMANDS
from binlake.stream.views import VIEWS
from binlake.table.metadata import METADATA, metadata_fields
from binlake.values.options import READ_OPTIONS, ReadOptions
from dev.docs.option_forms import FORMS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])

_FENCED = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^()\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<text>.+?) *$", re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    prose = _FENCED.sub("", text_of(page))
    headings = (match["text"].lower() for match in _HEADING.finditer(prose))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    for match in _LINK.finditer(_FENCED.sub("", text_of(page))):
        path, _, anchor = match["target"].partition("#")
        if path.startswith(("http://", "https://", "mailto:")):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {path}"
        # git keeps no empty directory
        assert target.is_file() or any(target.iterdir()), f"{page.name} links to {path}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {match['target']}"


@pytest.mark.parametrize(
    "page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS))
)
def test_links_between_pages_stay_on_the_site(page: Path) -> None:
    """`make docs` takes much longer to find the same fault."""
    in_conf = set(re.findall(r'"(\.\./\S+)": "project/', text_of(DOCS / "conf.py")))
    for match in _LINK.finditer(_FENCED.sub("", text_of(page))):
        path = match["target"].partition("#")[0]
        if path.startswith(("http://", "https://")) or not path.endswith(".md"):
            continue  # Sphinx copies other files
        on_site = (page.parent / path).resolve().is_relative_to(DOCS)
        assert on_site or (page.parent == DOCS and path in in_conf), f"{page.name} links to {path}"


def test_every_option_of_a_mirror_is_in_the_table_of_its_page() -> None:
    pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
    from binlake.cli.mirror.command import mirror
    from binlake.mirror.options import MIRROR_OPTIONS

    page = text_of(DOCS / "mirror-options.md")
    rows = page.partition("\n## All options\n")[2].partition("\n## ")[0]
    names = {
        name.split()[0]
        for name in re.findall(r"^\| (.+?) \|", rows, re.MULTILINE)
        for name in re.findall(r"`(.+?)`", name)
    }
    run = {
        option.opts[0]
        for option in mirror.commands["run"].params
        if not str(getattr(option, "panel", "")).startswith("Connection")
        and option.opts[0].startswith("--")
    }
    without_flag = {option.name for option in MIRROR_OPTIONS if not option.flag}
    assert names == run | without_flag


def navigation() -> list[str]:
    """The pages that the navigation of the site lists, without `.md`."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", text_of(DOCS / "index.md"), re.DOTALL | re.M)
    entries = [line for tree in trees for line in tree.splitlines() if line and line[0] != ":"]
    return [re.sub(r".*<(.+)>$", r"\1", entry) for entry in entries]


def test_every_page_is_in_the_navigation_once() -> None:
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(navigation()) == sorted(pages - {"index"})
    assert "](docs/index.md)" in text_of(ROOT / "README.md")


@pytest.mark.parametrize("page", ["README.md", "docs/comparison.md"])
def test_the_newest_results_of_each_benchmark_are_linked(page: str) -> None:
    results = sorted(path.stem for path in (ROOT / "benchmarks" / "results").glob("*.md"))
    newest = {name[len("2026-11-21-") :]: name for name in results}
    linked = re.findall(r"\(\S*benchmarks/results/(\S+)\.md\)", text_of(ROOT / page))
    assert sorted(linked) == sorted(newest.values())


def test_the_runnable_examples_of_the_python_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, as one program."""
    monkeypatch.chdir(ROOT)
    page = DOCS / "python.md"
    text = text_of(page)
    blocks = [m for m in _FENCED.finditer(text) if m["info"].split() == ["python", "runnable"]]
    assert len(blocks) >= 10
    names: dict[str, object] = {"__name__": "docs_python"}
    for block in blocks:
        lines_before = text.count("\n", 0, block.start("code"))
        code = compile("\n" * lines_before + block["code"], str(page), "exec")
        exec(code, names)  # noqa: S102


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_section(command: str) -> None:
    headings = [m["text"] for m in _HEADING.finditer(text_of(DOCS / "commands.md"))]
    assert any(re.match(rf"binlake {command}\b", heading) for heading in headings)


@pytest.mark.parametrize("option", [spec.name for spec in READ_OPTIONS])
def test_every_read_option_is_listed(option: str) -> None:
    assert f"| `{option}` |" in text_of(DOCS / "options.md")


def test_every_option_and_view_of_spark_is_on_its_page() -> None:
    pytest.importorskip("pyspark")
    from binlake.spark.options import SPARK_OPTIONS, VIEWS

    text = text_of(DOCS / "spark.md")
    for spec in SPARK_OPTIONS:
        assert f"| `{spec.name}` |" in text
        assert f"| `{spec.name}` |" in text_of(DOCS / "options.md")
        assert spec.choices or spec.metavar in FORMS
    for view in VIEWS:
        assert f"\n### {view}\n" in text


def test_every_option_of_streams_is_on_its_page() -> None:
    pytest.importorskip("pyspark")
    from binlake.spark.options import STREAM_OPTIONS

    for spec in STREAM_OPTIONS:
        assert f"| `{spec.name}` |" in text_of(DOCS / "streaming.md")
        assert f"| `{spec.name}` |" in text_of(DOCS / "options.md")
        assert spec.metavar in FORMS


def test_every_column_of_every_view_is_on_the_spark_page() -> None:
    text = text_of(DOCS / "spark.md")
    for view in VIEWS.values():
        section = text.partition(f"### {view.name}\n")[2].partition("\n#")[0]
        listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        assert listed == [column.name for column in view.columns], view.name
    for column in METADATA:
        assert f"`_{column.name}`" in text


def _listed_types(section: str) -> dict[str, str]:
    """Columns of a table on the Spark page and their types; a row may list several of both."""
    found: dict[str, str] = {}
    for names, types in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", section, re.MULTILINE):
        columns = re.findall(r"`(\w+)`", names)
        kinds = [types.strip().strip("`")]
        if len(columns) > 1 and ", " in types:
            kinds = types.strip().split(", ")
        if len(kinds) == 1:
            kinds *= len(columns)
        found |= dict(zip(columns, kinds, strict=True))
    return found


@pytest.mark.parametrize("view", ["changes", "events", "transactions", "statements", "table"])
def test_the_types_on_the_spark_page(view: str) -> None:
    pytest.importorskip("pyspark")
    from binlake.spark.options import SourceOptions
    from binlake.spark.schema import spark_schema
    from binlake.spark.views import view_schema

    asked = {"query": "true", "thread_id": "true", "before": "true"}
    text = text_of(DOCS / "spark.md")
    section = text.partition(f"### {view}\n")[2].partition("\n#")[0]
    if view == "table":
        schema = spark_schema(pa.schema(metadata_fields([], ReadOptions.parse(asked))))
    else:
        options = SourceOptions.parse({"path": "/", "view": view, **asked})
        schema = spark_schema(view_schema(options))
    shown = {
        field.name: re.sub(r":", " ", field.dataType.simpleString()) for field in schema.fields
    }
    listed = _listed_types(section)
    if view == "table":
        assert listed.pop("_before") == "struct of the table's columns"
        shown.pop("_before")
        shown["_seq"] = shown["_seq"].replace(",", ", ")
    assert listed == shown
