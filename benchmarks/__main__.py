"""`make bench`: every speed and memory claim, measured in one run on one machine.

Makes (once, into build/bench) the logs of `dev/bench_log.py` with a real MySQL 9.7, times
binlake and its peers on them, and writes `benchmarks/results/<date>.{json,md}` (of some parts
only, `<date>-<parts>`). Ratios are of medians. Nothing here is a test: no figure makes it fail.

Each measurement is kept in `measured.json` beside the logs; with --resume, a run that was stopped
continues with the first one that is missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.archive import TOOL, archive
from benchmarks.ask import HISTORIES, ask
from benchmarks.commands import BINLAKE, starts, texts
from benchmarks.flat import FLAT_ROWS, flat, flat_goals
from benchmarks.goals import Goal, ratio
from benchmarks.java import java_peer
from benchmarks.large import large, large_goals
from benchmarks.measure import Measured, machine, measure
from benchmarks.mirror import MirrorSizes, mirror, mirror_goals
from benchmarks.scale import scale, scale_page
from dev.servers import Server, installation

HERE = Path(__file__).parent
ROOT = HERE.parent
CASES = HERE / "cases"
TABLE = "shop.orders"
SERVER = "mysql-9.7"
FRESHNESS_SECONDS = 30
PARTS = (
    "decoders",
    "commands",
    "start",
    "shapes",
    "memory",
    "python",
    "archive",
    "ask",
    "spark",
    "stream",
    "scale",
    "large",
    "mirror",
    "flat",
)
#: Parts that make a log of their own.
WITHOUT_LOG = {"mirror", "flat"}


#: Tables and transactions of other kinds, by the server that logged them (dev/bench_shapes.py).
SHAPES = (
    ("mysql-9.7", "narrow"),
    ("mysql-9.7", "wide"),
    ("mysql-9.7", "small"),
    ("mysql-9.7", "compressed"),
    ("mariadb-11.8", "narrow"),
    ("mariadb-11.8", "wide"),
    ("mariadb-11.8", "small"),
    ("mariadb-11.8", "compressed"),
)


@dataclass
class Bench:
    """The logs (`folder` is also the server's that made them), and what has been measured."""

    folder: Path
    runs: int
    parts: Sequence[str] = PARTS  # what was asked for
    done: dict[str, Measured] = field(default_factory=dict)
    known: dict[str, Measured] = field(default_factory=dict)  # of a run that is resumed

    @property
    def kept(self) -> Path:
        """Where measurements are kept."""
        return self.folder / "measured.json"

    def resume(self) -> None:
        """Take over what a run before has measured."""
        if self.kept.exists():
            found = (Measured(**one) for one in json.loads(self.kept.read_text()))
            self.known = {one.name: one for one in found}

    @property
    def log(self) -> Path:
        """The log of one table."""
        return self.folder / "binlog.000001"

    def case(
        self, name: str, script: str, *args: object, warmup: int = 1, runs: int | None = None
    ) -> Measured:
        """Time one of our own case scripts."""
        command: list[str | Path] = [sys.executable, CASES / script, *map(str, args)]
        return self.command(name, command, warmup=warmup, runs=runs)

    def command(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        warmup: int = 1,
        runs: int | None = None,
        keep_output: bool = True,
    ) -> Measured:
        """Time any command and remember it; `runs` times, or as often as all are."""
        print(f"  {name} …", flush=True)
        result = self.known.get(name) or measure(
            name, command, runs=runs or self.runs, warmup=warmup, keep_output=keep_output
        )
        print(f"    {result.seconds:.3f} s, peak {result.peak_memory_bytes >> 20} MB", flush=True)
        self.done[name] = result
        whole = {**self.known, **self.done}
        self.kept.write_text(json.dumps([one.as_dict() for one in whole.values()], indent=1))
        return result


GOALS = (
    Goal("decode to Arrow, 1 thread, vs mysqlbinlog -vv", ratio("mysqlbinlog -vv", "decode, 1 thread"), ">= 20", lambda v: v >= 20),
    Goal("decode to Arrow, 2 threads, vs mysqlbinlog -vv", ratio("mysqlbinlog -vv", "decode, 2 threads"), ">= 35", lambda v: v >= 35),
    Goal("two processors at once vs one, zlib.crc32 in the cache", lambda d: d["two processors"].output["speed_up"], "", bool),
    Goal("decode vs python-mysql-replication, whole processes",
         lambda d: d["python-mysql-replication"].wall_seconds / d["decode"].wall_seconds,
         ">= 400", lambda v: v >= 400),
    Goal("the same without the start of both", ratio("python-mysql-replication", "decode"), "", bool),
    Goal("decode vs mysql-binlog-connector-java", ratio("java peer", "decode"), ">= 3", lambda v: v >= 3),
    Goal("decode vs connector-java, JSON as text in both", ratio("java peer, JSON text", "decode"), "", bool),
    Goal("verified scan vs zlib crc32 of the file", ratio("scan", "crc32"), "<= 1.2", lambda v: v <= 1.2),
    Goal("export, Spark, vs df.write.parquet, warm, 2 cores", ratio("spark write.parquet", "export"), ">= 5", lambda v: v >= 5),
    Goal("export --engine local vs df.write.parquet, warm", ratio("spark write.parquet", "export --engine local"), ">= 8", lambda v: v >= 8),
    Goal("the same for the demo's logs, cold, Spark, s", lambda d: d["demo export, Spark"].seconds, "<= 12", lambda v: v <= 12),
    Goal("the same, local, s", lambda d: d["demo export, local"].seconds, "", bool),
    Goal("bytes decoded for a 1 % window", lambda d: d["window 1 %"].output["decoded_share"], "<= 0.02", lambda v: v <= 0.02),
    Goal("2 of 13 columns vs all", ratio("decode", "decode 2 columns"), "faster", lambda v: v > 1),
    Goal("catch-up of a stream vs a batch read, 2 cores", ratio("stream catch-up", "batch read"), "<= 1.2", lambda v: v <= 1.2),
    Goal("freshness at 1,000 row changes a second, s: median", lambda d: d["freshness 1000"].seconds, "", bool),
    Goal("the same: 99th percentile", lambda d: d["freshness 1000"].output["p99"], "", bool),
    Goal("freshness at 10,000 row changes a second, s: median", lambda d: d["freshness 10000"].seconds, "", bool),
    Goal("the same: 99th percentile", lambda d: d["freshness 10000"].output["p99"], "", bool),
    Goal("peak memory of a 1 GB transaction, MB",
         lambda d: d["1 GB transaction"].peak_memory_bytes / (1 << 20), "< 512", lambda v: v < 512),
    Goal("the same, compressed, MB",
         lambda d: d["1 GB transaction, compressed"].peak_memory_bytes / (1 << 20), "< 512", lambda v: v < 512),
    Goal("mysqlbinlog --raw: the server's tool vs binlake's", ratio(TOOL, "binlake " + TOOL), ">= 1", lambda v: v >= 1),
    Goal("the same vs archive --no-index", ratio(TOOL, "archive"), ">= 1", lambda v: v >= 1),
    Goal("the same vs archive until the indexes are there too", ratio(TOOL, "archive, indexes"), "", bool),
    Goal("history of a row in 2,000 logs of 10 MB, s, the slowest of 3 random keys",
         lambda d: max(d[name].wall_seconds for name in HISTORIES),
         "<= 2", lambda v: v <= 2),
    Goal("the same: share of the bytes that it reads", lambda d: d["history, 2,000 logs"].output["share"],
         "<= 0.01", lambda v: v <= 0.01),
    Goal("--where on one integer column vs decode of all columns", ratio("decode all columns", "where on one column"),
         ">= 2", lambda v: v >= 2),
    Goal("query of a sum vs decode of its column", ratio("query of a sum", "decode the column of a sum"),
         "<= 1.3", lambda v: v <= 1.3),
    *(
        Goal(f"mysqlbinlog{form} vs the server's tool", ratio(f"mysqlbinlog{form}", f"binlake mysqlbinlog{form}"),
             ">= 1", lambda v: v >= 1)
        for form in ("", " -v")
    ),
    Goal("mysqlbinlog -vv decode-rows vs the server's tool",
         ratio("mysqlbinlog -vv", "binlake mysqlbinlog -vv decode-rows"), ">= 1", lambda v: v >= 1),
    Goal("inspect vs mysqlbinlog", ratio("mysqlbinlog", "binlake inspect"), ">= 1.5", lambda v: v >= 1.5),
    Goal("rows vs mysqlbinlog -vv", ratio("mysqlbinlog -vv", "binlake rows"), ">= 4", lambda v: v >= 4),
    Goal("stats vs decode without values", ratio("stats", "decode without values"), "<= 1.5", lambda v: v <= 1.5),
    Goal("index vs decode without values", ratio("index", "decode without values"), "<= 1.5", lambda v: v <= 1.5),
    Goal("verify vs zlib crc32 of the file", ratio("binlake verify", "crc32"), "<= 2, and start", bool),
    *(
        Goal(f"peak memory of {name}, MB",
             lambda d, name=name: d[f"binlake {name}"].peak_memory_bytes / (1 << 20),  # type: ignore[misc]
             "<= 200", lambda v: v <= 200)
        for name in ("inspect", "rows", "mysqlbinlog", "mysqlbinlog -vv decode-rows")
    ),
    Goal("--help, s", lambda d: d["binlake --help"].seconds, "<= 0.25", lambda v: v <= 0.25),
    Goal("import binlake; binlake.open, s", lambda d: d["binlake.open"].seconds, "<= 0.3", lambda v: v <= 0.3),
    Goal("import pyarrow alone, s", lambda d: d["import pyarrow"].seconds, "", bool),
    Goal("first line of inspect, s", lambda d: d["first line of inspect"].seconds, "<= 0.35", lambda v: v <= 0.35),
    Goal("first line of rows, s", lambda d: d["first line of rows"].seconds, "<= 0.6", lambda v: v <= 0.6),
    *(
        Goal(f"{shape}, {server}: decode vs tool -vv",
             ratio(f"{shape}, {server}: tool -vv", f"{shape}, {server}: decode"), "", bool)
        for server, shape in SHAPES
    ),
    Goal("cores busy during export of one file", lambda d: d["export"].output["cores_busy"], "about 2", lambda v: v > 1.6),
)  # fmt: skip


def decoders(bench: Bench) -> None:
    """Our decoder against the peers on the same file."""
    bench.case("decode", "decode.py", bench.log, TABLE)
    for threads, shown in ((1, "1 thread"), (2, "2 threads")):
        bench.case(f"decode, {shown}", "decode.py", bench.log, TABLE, f"threads={threads}")
    bench.case("decode without values", "decode.py", bench.log, TABLE, "columns=id", "before=false")
    for what in ("stats", "index"):
        bench.case(what, "counting.py", what, bench.log)
    bench.case("decode 2 columns", "decode.py", bench.log, TABLE, "columns=id,state")
    bench.case("scan", "scan.py", bench.log, "frames")
    bench.case("crc32", "scan.py", bench.log, "crc32")
    bench.case("two processors", "processors.py")
    bench.command(
        "mysqlbinlog -vv",
        [
            *installation(SERVER).reader_command(),
            "-vv",
            "--base64-output=decode-rows",
            bench.log,
        ],
        keep_output=False,
    )
    java = java_peer("java", "ReadLog")
    bench.command("java peer", [*java, bench.log])
    bench.command("java peer, JSON text", [*java, bench.log, "12"])


def shapes(bench: Bench) -> None:
    """Other tables, other transactions, the other flavour: each beside its server's tool."""
    folder = bench.folder / "shapes"
    if not (folder / "made").exists():
        subprocess.run([sys.executable, "-m", "dev.bench_shapes", folder], cwd=ROOT, check=True)
    for server, shape in SHAPES:
        log = folder / server / f"{shape}.000001"
        tool = installation(server).reader_command()
        words: list[str | Path] = [*tool, "-vv", "--base64-output=decode-rows", log]
        bench.command(f"{shape}, {server}: tool -vv", words, keep_output=False)
        bench.case(f"{shape}, {server}: decode", "decode.py", log, f"bench.{shape}")


def spark(bench: Bench, scratch: Path) -> None:
    """Exports on two cores, with Spark (second in a session) and without, beside Spark's own writer."""
    for name, what in (("export", "export"), ("spark write.parquet", "write")):
        target = scratch / what
        bench.case(name, "spark_export.py", what, bench.log, TABLE, target, warmup=0)
        shutil.rmtree(target, ignore_errors=True)
    demo = ROOT / "demo" / SERVER
    for name, log, engine in (
        ("export --engine local", bench.log, "local"),
        ("demo export, local", demo, "local"),
        ("demo export, Spark", demo, "spark"),
    ):
        target = scratch / engine
        words: list[str | Path] = ["export", log, target, "--overwrite", "--engine", engine]
        bench.command(name, [*BINLAKE, *words], warmup=0, keep_output=False)


def streams(bench: Bench, scratch: Path) -> None:
    """Catching up, and the time from a commit on the server to the row in the sink."""
    for name, what in (("stream catch-up", "stream"), ("batch read", "batch")):
        bench.case(name, "stream_catch_up.py", what, bench.log, TABLE, scratch / what, warmup=0)
        shutil.rmtree(scratch / what, ignore_errors=True)
    for rate in (1_000, 10_000):
        for where, name in (("server", "freshness"), ("directory", "freshness of files")):
            bench.case(
                f"{name} {rate}", "stream_freshness.py", SERVER, where, rate, FRESHNESS_SECONDS,
                warmup=0,
            )  # fmt: skip


def python_peer(bench: Bench) -> None:
    """The Python peer reads from a server only: the one that wrote the log serves it again."""
    server = Server(installation(SERVER), bench.folder)
    server.start()
    try:
        server.execute(
            "CREATE USER IF NOT EXISTS bench@localhost IDENTIFIED BY 'bench'",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO bench@localhost",
        )
        peer = HERE / "peers" / "python_mysql_replication.py"
        bench.command(
            "python-mysql-replication",
            [sys.executable, peer, str(server.port), bench.log.name],
            warmup=0,
            runs=1,  # it takes minutes
        )
    finally:
        server.stop()


def _described(bench: Bench) -> Iterator[str]:
    if not set(bench.parts) <= WITHOUT_LOG:
        yield f"Medians of {bench.runs} runs after a warm-up; ours and the Java"
        yield "peer time their own work (start-up left out), the others are whole processes."
        size = bench.log.stat().st_size / 1e6
        yield f"Log: {size:.0f} MB, one table of 13 columns, JSON among them."
    if not WITHOUT_LOG.isdisjoint(bench.parts):
        yield "Mirror: one run, whose rounds repeat; a table of 13 columns; changes scattered over the whole table,"
        yield "50 % updates, 40 % inserts, 10 % deletes; start of Spark and of the JVM left out; the server on the same cores."
    if "flat" in bench.parts:
        yield "Flat: one mirror of tables of different sizes, whose rounds alternate; compactions of both tables come between the"
        yield "rounds, and are in a figure of their own: that of the large table is not due within the run."


def report(bench: Bench, commands: str) -> str:
    """The result page."""
    where = machine()
    lines = [
        f"# Benchmark of {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"Machine: {where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB.",
        f"Linux {where['kernel']}, Python {where['python']}.",
        f"Command: `{commands}`.",
        *_described(bench),
        "",
        "| goal | wanted | measured | met |",
        "| --- | --- | --- | --- |",
    ]
    for goal in (
        *GOALS,
        *large_goals(bench.done),
        *mirror_goals(bench.done),
        *flat_goals(bench.done),
    ):
        try:
            value = goal.value(bench.done)
        except KeyError as missing:
            if set(bench.parts) != set(PARTS):
                continue
            lines.append(f"| {goal.name} | {goal.wanted} | not measured ({missing}) | |")
            continue
        met = "" if not goal.wanted else "yes" if goal.met(value) else "**no**"
        lines.append(f"| {goal.name} | {goal.wanted} | {value:.3g} | {met} |")
    lines += [
        "",
        "| what | seconds | wall | cpu | peak MB | runs |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines.extend(
        f"| {m.name} | {m.seconds:.3f} | {m.wall_seconds:.2f} | {m.cpu_seconds:.2f} "
        f"| {m.peak_memory_bytes >> 20} | {m.seconds_each} |"
        for m in bench.done.values()
    )
    return "\n".join([*lines, *scale_page(bench.done)]) + "\n"


def main() -> None:
    """Measure everything, or what --only names, and write the result files."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument(
        "--megabytes", type=int, default=300, help="of the first log, when it is made"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--rows", type=int, action="append", help="of the tables of `mirror` and `flat`"
    )
    parser.add_argument("--large-rounds", type=int, default=2, help="of 1,000,000 changes")
    parser.add_argument("--small-rounds", type=int, default=10, help="of 100,000 changes")
    parser.add_argument("--large-gigabytes", type=float, default=20, help="of the log of `large`")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    parser.add_argument("--only", action="append", choices=list(PARTS))
    options = parser.parse_args()
    wanted = options.only or list(PARTS)
    if not set(wanted) <= WITHOUT_LOG and not (options.folder / "binlog.000003").exists():
        print("making the logs …", flush=True)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "dev.bench_log",
                options.folder,
                f"--megabytes={options.megabytes}",
            ],
            cwd=ROOT,
            check=True,
        )
    options.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.folder, options.runs, wanted)
    if options.resume:
        bench.resume()
    if "decoders" in wanted:
        decoders(bench)
        bench.case("window 1 %", "window.py", bench.log, TABLE)
    if "commands" in wanted:
        texts(bench, SERVER)
    if "start" in wanted:
        starts(bench, ROOT)
    if "shapes" in wanted:
        shapes(bench)
    if "memory" in wanted:
        for name, log in (("", "binlog.000002"), (", compressed", "binlog.000003")):
            bench.case(f"1 GB transaction{name}", "decode.py", bench.folder / log, TABLE, warmup=0)
    if "python" in wanted:
        python_peer(bench)
    if "archive" in wanted:
        with tempfile.TemporaryDirectory(prefix="binlake-bench-", dir=bench.folder) as scratch:
            archive(bench, SERVER, Path(scratch))
    if "ask" in wanted:
        ask(bench, SERVER)
    if "spark" in wanted:
        with tempfile.TemporaryDirectory(prefix="binlake-bench-") as scratch:
            spark(bench, Path(scratch))
    if "stream" in wanted:
        with tempfile.TemporaryDirectory(prefix="binlake-bench-") as scratch:
            streams(bench, Path(scratch))
    if "scale" in wanted:
        with tempfile.TemporaryDirectory(prefix="binlake-bench-", dir=bench.folder) as scratch:
            scale(bench, TABLE, Path(scratch))
    if "large" in wanted:
        with tempfile.TemporaryDirectory(prefix="binlake-bench-", dir=bench.folder) as scratch:
            large(bench, TABLE, options.large_gigabytes, Path(scratch))
    if "mirror" in wanted:
        rows = options.rows or [1_000_000]
        mirror(bench, MirrorSizes(rows, options.large_rounds, options.small_rounds))
    if "flat" in wanted:
        flat(bench, options.rows or FLAT_ROWS)
    given = " ".join(sys.argv[1:])
    page = report(bench, f'make bench ARGS="{given}"' if given else "make bench")
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    parts = "".join(f"-{part}" for part in options.only or ())  # not in place of all of them
    stem = results / f"{datetime.now(UTC):%Y-%m-%d}{parts}"
    stem.with_suffix(".md").write_text(page)
    measured = {"machine": machine(), "measured": [m.as_dict() for m in bench.done.values()]}
    stem.with_suffix(".json").write_text(json.dumps(measured, indent=1))
    print(page)


if __name__ == "__main__":
    main()
