"""Every column type with its edge values, as SQL, by table.

`families(server)` gives the tables that the server can hold. Values are SQL expressions and
fixed: nothing here is random.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from dev.servers import Server, Session

__all__ = ["Column", "Table", "characters_held", "families", "literal"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its SQL type, and the values worth having in it."""

    name: str
    type: str
    edges: tuple[str, ...]

    def edge(self, number: int) -> str:
        """The `number`th value, going round; NULL comes after the last edge."""
        at = number % (len(self.edges) + 1)
        return self.edges[at] if at < len(self.edges) else "NULL"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of one family of types; its key `id` is added at the front."""

    name: str
    columns: tuple[Column, ...]

    def create(self, options: str = "") -> str:
        """The CREATE TABLE statement."""
        columns = "".join(f",\n  `{c.name}` {c.type} NULL" for c in self.columns)
        return (
            f"CREATE TABLE `{self.name}` (\n  `id` INT NOT NULL PRIMARY KEY{columns}\n) "
            f"ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 {options}"
        )

    def rows(self, limit: int) -> list[str]:
        """Value lists that hold every edge (of the first `limit`), a NULL of each, all NULLs."""
        count = min(limit, max(len(c.edges) for c in self.columns) + 1)
        lists = [", ".join(c.edge(i) for c in self.columns) for i in range(count)]
        lists.append(", ".join("NULL" for _ in self.columns))
        return [f"({i}, {values})" for i, values in enumerate(lists, 1)]

    def changes(self, limit: int) -> Iterator[str]:
        """Updates of one, some and all columns, of the key, and of several rows."""
        count = len(self.rows(limit))
        step = -(-len(self.columns) // 5)
        groups = [
            self.columns[:1],
            *(self.columns[i : i + step] for i in range(0, len(self.columns), step)),
        ]
        for i, group in enumerate(groups):
            changed = ", ".join(f"`{c.name}` = {c.edge(i + 1)}" for c in group)
            yield f"UPDATE `{self.name}` SET {changed} WHERE id = {i % count + 1}"
        everything = ", ".join(f"`{c.name}` = {c.edge(1)}" for c in self.columns)
        yield f"UPDATE `{self.name}` SET {everything} WHERE id <= 2"
        yield f"UPDATE `{self.name}` SET id = id + 1000 WHERE id = 2"


# --- numbers ---


def _integers(server: Server) -> Iterator[Column]:
    for name, bits in (
        ("tinyint", 8),
        ("smallint", 16),
        ("mediumint", 24),
        ("int", 32),
        ("bigint", 64),
    ):
        low, high, top = -(1 << bits - 1), (1 << bits - 1) - 1, (1 << bits) - 1
        yield Column(name, name, tuple(map(str, (low, high, 0, -1, 1, low + 1))))
        yield Column(f"{name}_u", f"{name} UNSIGNED", tuple(map(str, (0, top, 1, high, high + 1))))
    yield Column("bool", "BOOLEAN", ("TRUE", "FALSE"))
    yield Column("zerofill", "INT(9) UNSIGNED ZEROFILL", ("0", "42", "4294967295"))
    yield Column("year", "YEAR", ("0", "1901", "2000", "2155"))


def _decimals(server: Server) -> Iterator[Column]:
    shapes = [(p, 0) for p in range(1, 11)] + [(p, p) for p in (1, 2, 9, 10, 30)]
    shapes += [(10, 2), (18, 9), (19, 10), (38, 0), (38, 11), (38, 30), (39, 1), (65, 0), (65, 30)]
    for precision, scale in shapes:
        whole = precision - scale

        def number(digits: str, whole: int = whole, scale: int = scale) -> str:
            digits = digits.rjust(whole + scale, "0")
            return (digits[:whole] or "0") + ("." + digits[whole:] if scale else "")

        digits = [
            "9" * precision,
            "0",
            "1",
            "1" + "0" * (precision - 1),
            ("10" * precision)[:precision],
        ]
        digits.append(("1234567890" * 7)[:precision])
        edges = [number(d) for d in digits] + [
            "-" + number(d) for d in (digits[0], "1", digits[-1])
        ]
        yield Column(f"d{precision}_{scale}", f"DECIMAL({precision},{scale})", tuple(edges))
    yield Column("unsigned", "DECIMAL(12,3) UNSIGNED", ("0", "999999999.999", "0.001"))


def _floats(server: Server) -> Iterator[Column]:
    single = (
        "0",
        "-0e0",
        "0.1",
        "1e-45",
        "1.175494351E-38",
        "3.402823466E38",
        "-3.402823466E38",
        "16777217",
    )
    double = ("0", "-0e0", "0.1e0", "1e0/3e0", "5e-324", "2.2250738585072014E-308", "1e22", "1e15", "1e16",
              "1.7976931348623157E308", "-1.7976931348623157E308", "9007199254740993", "123456789.123456789e0")  # fmt: skip
    yield Column("float", "FLOAT", single)
    yield Column("double", "DOUBLE", double)
    yield Column("float_md", "FLOAT(7,3)", ("9999.999", "-9999.999", "0.001"))
    yield Column("double_md", "DOUBLE(20,5)", ("123456789012345.12345", "-0.00001"))
    yield Column("float_u", "FLOAT UNSIGNED", ("0", "1.5"))
    yield Column("float_40", "FLOAT(40)", ("0.1e0", "1e300"))


def _bits(server: Server) -> Iterator[Column]:
    for bits in (1, 2, 7, 8, 9, 16, 17, 24, 25, 32, 33, 40, 48, 56, 63, 64):
        values = sorted({0, 1, 1 << bits - 1, (1 << bits) - 1})
        yield Column(f"b{bits}", f"BIT({bits})", tuple(f"b'{v:b}'" for v in values))


# --- dates and times ---


def _temporals(server: Server) -> Iterator[Column]:
    dates = (
        "1000-01-01",
        "9999-12-31",
        "0000-00-00",
        "2020-02-29",
        "2021-00-00",
        "2021-05-00",
        "0001-01-01",
        "1969-12-31",
    )
    yield Column("date", "DATE", tuple(f"'{d}'" for d in dates))
    last = "2106-02-07 06:28:15" if server.name == "mariadb-11.8" else "2038-01-19 03:14:07"
    for digits in range(7):
        of = f"({digits})" if digits else ""
        most = "." + "987654"[:digits] if digits else ""
        least = "." + "000001"[6 - digits :] if digits else ""
        times = (f"838:59:58{most}", f"-838:59:58{most}", "838:59:59", "-838:59:59", "00:00:00", f"-00:00:00{least}",
                 "-00:00:01", f"-01:02:03{least}", f"23:59:59{most}")  # fmt: skip
        yield Column(f"time{digits}", f"TIME{of}", tuple(f"'{t}'" for t in times))
        moments = ("1000-01-01 00:00:00", f"9999-12-31 23:59:59{most}", "0000-00-00 00:00:00", f"2020-02-29 12:34:56{least}",
                   "2021-00-00 00:00:00", "2021-05-00 01:02:03", "0001-01-01 01:01:01", f"1969-12-31 23:59:59{most}")  # fmt: skip
        yield Column(f"datetime{digits}", f"DATETIME{of}", tuple(f"'{m}'" for m in moments))
        stamps = (
            "1970-01-01 00:00:01",
            f"{last}{most}",
            "0000-00-00 00:00:00",
            f"2000-01-01 00:00:00{least}",
            f"2020-02-29 12:34:56{most}",
        )
        yield Column(f"timestamp{digits}", f"TIMESTAMP{of}", tuple(f"'{s}'" for s in stamps))


def _old_temporals(server: Server) -> Iterator[Column]:
    return (c for c in _temporals(server) if c.name in ("date", "time0", "datetime0", "timestamp0"))


# --- characters ---

# A few of every script; the server says which of them a character set holds.
_SCRIPTS = (
    (0x20, 0x7F), (0xA1, 0x180), (0x20AC, 0x20AD), (0x391, 0x3CA), (0x410, 0x450), (0x531, 0x550), (0x5D0, 0x5EB),
    (0x621, 0x64B), (0xE01, 0xE2F), (0x10D0, 0x10F0), (0x3041, 0x3060), (0x30A2, 0x30C0), (0xFF71, 0xFF90),
    (0x4E00, 0x4E40), (0x8868, 0x8869), (0x80FD, 0x80FE), (0xAC00, 0xAC20), (0x1F600, 0x1F610), (0x20000, 0x20004),
)  # fmt: skip


def literal(text: str) -> str:
    """A string literal without any question of quoting."""
    return f"_utf8mb4 x'{text.encode().hex()}'" if text else "''"


def _held(session: Session, charset: str) -> str:
    """The characters of _SCRIPTS that go into a character set and come back."""
    characters = [chr(c) for first, end in _SCRIPTS for c in range(first, end)]
    held = []
    for start in range(0, len(characters), 200):
        part = characters[start : start + 200]
        # as one column: the client takes long to read the descriptions of many
        asked = ", ".join(
            f"IFNULL(HEX(CONVERT(CONVERT({literal(c)} USING {charset}) USING utf8mb4)), '')"
            for c in part
        )
        back = str(session.rows(f"SELECT CONCAT_WS(',', {asked})")[0][0]).split(",")
        held += [c for c, h in zip(part, back, strict=True) if bytes.fromhex(h) == c.encode()]
    return "".join(held)


_HELD_BY: dict[str, dict[str, str]] = {}


def characters_held(server: Server) -> dict[str, str]:
    """Character set -> characters it holds, for every one of the server, which is asked once."""
    if server.name not in _HELD_BY:
        with server.session() as session:
            names = [row[0] or "" for row in session.rows("SHOW CHARACTER SET")]
            _HELD_BY[server.name] = {
                name: _held(session, name) for name in sorted(names) if name != "binary"
            }
    return _HELD_BY[server.name]


def _texts(kind: str, length: int) -> Callable[[Server], Iterator[Column]]:
    def columns(server: Server) -> Iterator[Column]:
        for charset, held in characters_held(server).items():
            tail = held[-length:]
            spread = "".join(islice(held, 3, None, max(1, len(held) // length)))[:length]
            edges = ("''", literal("a"), literal(tail), literal("b  "), literal(spread))
            yield Column(
                f"{kind.lower()}_{charset}",
                f"{kind}{f'({length})' if kind != 'TEXT' else ''} CHARACTER SET {charset}",
                edges,
            )

    return columns


def _lengths(server: Server) -> Iterator[Column]:
    """Each width of length prefix, at its limits."""
    for kind, length, charset in (
        ("CHAR", 0, "latin1"), ("CHAR", 63, "utf8mb4"), ("CHAR", 64, "utf8mb4"), ("CHAR", 255, "latin1"), ("CHAR", 255, "utf8mb4"),
        ("VARCHAR", 255, "latin1"), ("VARCHAR", 256, "latin1"), ("VARCHAR", 63, "utf8mb4"), ("VARCHAR", 64, "utf8mb4"),
        ("VARCHAR", 3000, "utf8mb4"),
    ):  # fmt: skip
        full = f"REPEAT({literal('é')}, {length})" if length else "''"
        name = f"{kind.lower()}{length}_{charset}"
        yield Column(
            name,
            f"{kind}({length}) CHARACTER SET {charset}",
            ("''", full, literal("x" * min(length, 1))),
        )
    for kind, most in (("TINYTEXT", 255), ("TEXT", 300), ("MEDIUMTEXT", 400), ("LONGTEXT", 300)):
        yield Column(
            kind.lower(),
            f"{kind} CHARACTER SET latin1",
            ("''", "'x'", "'yy'", "'z'", f"REPEAT('t', {most})"),
        )


def _binaries(server: Server) -> Iterator[Column]:
    edges = ("''", "x'00'", "x'ff'", "x'610000'", "x'0061'")
    for length in (1, 3, 20, 255):
        held = tuple(e for e in edges if (len(e) - 3) // 2 <= length)
        yield Column(f"binary{length}", f"BINARY({length})", (*held, f"REPEAT(x'fe', {length})"))
    for length in (40, 255, 256, 3000):
        yield Column(
            f"varbinary{length}", f"VARBINARY({length})", (*edges, f"REPEAT(x'00', {length})")
        )
    for kind, most in (("TINYBLOB", 255), ("BLOB", 300), ("MEDIUMBLOB", 66000), ("LONGBLOB", 300)):
        yield Column(kind.lower(), kind, (*edges, f"REPEAT(x'ab', {most})"))


def _members(count: int, prefix: str) -> str:
    return ", ".join(f"'{prefix}{i}'" for i in range(count))


def _enums(server: Server) -> Iterator[Column]:
    for count, prefix, charset in (
        (3, "é", "utf8mb4"),
        (255, "m", "latin1"),
        (256, "m", "latin1"),
        (4, "表", "sjis"),
        (3, "東", "gbk"),
    ):
        yield Column(
            f"enum{count}_{charset}",
            f"ENUM({_members(count, prefix)}) CHARACTER SET {charset}",
            ("1", str(count), "''"),
        )
    yield Column(
        "enum_odd", "ENUM('it''s', 'a,b', '', 'back\\\\slash')", ("1", "2", "3", "4", "''")
    )
    for count, charset in (
        (1, "utf8mb4"),
        (8, "latin1"),
        (9, "ascii"),
        (16, "ascii"),
        (17, "ascii"),
        (24, "ascii"),
        (33, "latin1"),
        (64, "ascii"),
    ):
        values = sorted({0, 1, 1 << count - 1, (1 << count) - 1})
        yield Column(
            f"set{count}",
            f"SET({_members(count, 's')}) CHARACTER SET {charset}",
            tuple(map(str, values)),
        )
    yield Column("set_gbk", f"SET({_members(3, '東')}) CHARACTER SET gbk", ("0", "5", "7"))


# --- documents, shapes, vectors ---

_SHAPES = {
    "POINT": "POINT(1 -2.5)",
    "LINESTRING": "LINESTRING(0 0, 1.25 1, -2 3)",
    "POLYGON": "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))",
    "MULTIPOINT": "MULTIPOINT(0 0, 1 1)",
    "MULTILINESTRING": "MULTILINESTRING((0 0, 1 1), (2 2, 3 3))",
    "MULTIPOLYGON": "MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))",
    "GEOMETRYCOLLECTION": "GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0, 1 1))",
}


def _geometries(server: Server) -> Iterator[Column]:
    for kind, shape in _SHAPES.items():
        yield Column(
            kind.lower(), kind, (f"ST_GeomFromText('{shape}')", f"ST_GeomFromText('{shape}', 3857)")
        )
    yield Column("geometry", "GEOMETRY", tuple(f"ST_GeomFromText('{s}')" for s in _SHAPES.values()))
    if server.name == "mysql-9.7":
        yield Column("gps", "POINT SRID 4326", ("ST_GeomFromText('POINT(52.5 13.4)', 4326)",))


_PLAIN_JSON: tuple[object, ...] = (
    {}, [], "", 0, -1, 32767, 32768, -32768, -32769, 65535, 65536, 2147483647, 2147483648, -2147483648, -2147483649,
    (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 1e300, 0.1, 1.0, -0.0, 1e-7, 100000.0, 1e16, 123456789012345680.0, True, False, None,
    "é😀 \\ \" / \n \t \u0001 \u007f", [[]], [{}], {"": ""}, {"b": 1, "a": 2, "aa": 3}, "x" * 127, "x" * 128, "x" * 16384,
    [1, "2", 3.5, None, True, {"z": [0]}], {"big": "y" * 66000, "n": [-1, None, 2.5]}, list(range(0, 60000, 997)),
)  # fmt: skip

_OPAQUE_JSON = (
    "CAST('2020-02-29' AS DATE)", "CAST('-838:59:59' AS TIME)", "CAST('12:34:56.789012' AS TIME(6))", "CAST('-00:00:00.5' AS TIME(1))",
    "CAST('2020-02-29 12:34:56.123456' AS DATETIME(6))", "CAST('9999-12-31 23:59:59' AS DATETIME)", "TIMESTAMP'2001-02-03 04:05:06'",
    "CAST(-1.5 AS DECIMAL(10,3))", f"CAST({'9' * 35}.{'9' * 30} AS DECIMAL(65,30))", "0.000001", "CAST(0 AS DECIMAL(5,2))",
    "x'00ff10'", "b'1010101'", "CAST('abc' AS BINARY)", "CAST(2020 AS YEAR)", "REPEAT(x'ab', 300)", "ST_GeomFromText('POINT(1 2)')",
    "18446744073709551615", "1e0/3e0",
)  # fmt: skip


def _deep(levels: int) -> object:
    value: object = 0
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


def _documents(server: Server) -> Iterator[Column]:
    plain = [
        f"CAST({literal(json.dumps(v, ensure_ascii=False))} AS JSON)"
        for v in (*_PLAIN_JSON, _deep(95))
    ]
    opaque = [f"JSON_OBJECT('k', {o}, 'l', JSON_ARRAY({o}))" for o in _OPAQUE_JSON]
    opaque += [f"CAST({o} AS JSON)" for o in _OPAQUE_JSON]
    yield Column("plain", "JSON", tuple(plain))
    yield Column("opaque", "JSON", tuple(opaque))


def _vectors(server: Server) -> Iterator[Column]:
    make = "STRING_TO_VECTOR" if server.flavour == "mysql" else "VEC_FromText"
    for size in (1, 3, 16):
        values = ("0", "1.5", "-3.4e38", "1.2e-38", "0.1")
        turned = ([values[(i + k) % 5] for i in range(size)] for k in range(3))
        edges = tuple(f"{make}('[{','.join(numbers)}]')" for numbers in turned)
        yield Column(f"vector{size}", f"VECTOR({size})", edges)


# --- what only MariaDB has ---


def _network(server: Server) -> Iterator[Column]:
    addresses = (
        "::",
        "::1",
        "2001:db8::ff00:42:8329",
        "::ffff:192.0.2.1",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    )
    yield Column("inet6", "INET6", tuple(f"'{a}'" for a in addresses))
    yield Column("inet4", "INET4", ("'0.0.0.0'", "'192.0.2.1'", "'255.255.255.255'"))
    yield Column("uuid", "UUID", ("'00000000-0000-0000-0000-000000000000'", "'123e4567-e89b-12d3-a456-426655440000'",
                                  "'018f4e2a-7b1c-7def-8123-456789abcdef'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"))  # fmt: skip


def _compressed(server: Server) -> Iterator[Column]:
    long = "REPEAT('compress me ', 60)"
    for kind, charset in (
        ("VARCHAR(1000)", "utf8mb4"),
        ("TEXT", "latin1"),
        ("LONGTEXT", "utf8mb4"),
    ):
        name = kind.partition("(")[0].lower()
        yield Column(
            name,
            f"{kind} COMPRESSED CHARACTER SET {charset}",
            ("''", "'short'", long, literal("é" * 9)),
        )
    for kind in ("VARBINARY(500)", "BLOB"):
        name = kind.partition("(")[0].lower()
        yield Column(name, f"{kind} COMPRESSED", ("''", "x'00'", "REPEAT(x'00ff', 200)"))
    yield Column("json", "JSON", ("'{}'", "'{\"a\": [1, 2]}'"))


def _wide(server: Server) -> Iterator[Column]:
    for i in range(300):
        kind, edges = (("TINYINT", ("-1", "7")), ("VARCHAR(9)", ("'v'",)), ("BIT(3)", ("5",)))[
            i % 3
        ]
        yield Column(f"c{i}", kind, edges if i % 7 else ())


# name -> (columns, servers that have such columns)
_ALL = ("mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8")
_MARIADB = ("mariadb-10.11", "mariadb-11.8")
_FAMILIES: dict[str, tuple[Callable[[Server], Iterator[Column]], tuple[str, ...]]] = {
    "integers": (_integers, _ALL),
    "decimals": (_decimals, _ALL),
    "floats": (_floats, _ALL),
    "bits": (_bits, _ALL),
    "temporals": (_temporals, _ALL),
    "old_temporals": (_old_temporals, ()),
    "chars": (_texts("CHAR", 9), _ALL),
    "varchars": (_texts("VARCHAR", 30), _ALL),
    "texts": (_texts("TEXT", 20), _ALL),
    "lengths": (_lengths, _ALL),
    "binaries": (_binaries, _ALL),
    "enums": (_enums, _ALL),
    "geometries": (_geometries, _ALL),
    "documents": (_documents, ("mysql-9.7",)),
    "vectors": (_vectors, ("mysql-9.7", "mariadb-11.8")),
    "network": (_network, _MARIADB),
    "compressed": (_compressed, _MARIADB),
    "wide": (_wide, _ALL),
}


def families(server: Server, *names: str) -> Iterator[Table]:
    """The tables of the named families, or of all that the server has by itself."""
    for name, (columns, servers) in _FAMILIES.items():
        if name in names or (not names and server.name in servers):
            yield Table(name, tuple(columns(server)))
