"""Random JSON documents, as SQL expressions."""

from __future__ import annotations

import random
import struct

__all__ = ["Expressions"]


class Expressions:
    """SQL expressions of random JSON values."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.scalars = (
            self.literal,
            self.integer,
            self.double,
            self.string,
            self.temporal,
            self.decimal,
            self.binary,
        )

    def value(self, depth: int) -> str:
        """A document with up to `depth` containers inside each other."""
        if not depth or self.rng.random() < 0.3:
            return self.rng.choice(self.scalars)()
        items = [self.value(depth - 1) for _ in range(self.rng.choice([0, 1, 3, 6]))]
        if self.rng.random() < 0.5:
            return f"JSON_ARRAY({','.join(items)})"
        return f"JSON_OBJECT({','.join(f'{self.text()},{item}' for item in items)})"

    def literal(self) -> str:
        return f"CAST('{self.rng.choice(['null', 'true', 'false'])}' AS JSON)"

    def integer(self) -> str:
        bits = self.rng.choice([7, 8, 15, 16, 31, 32, 63, 64])
        number = self.rng.getrandbits(bits)
        return f"CAST('{-number if bits < 64 and self.rng.random() < 0.5 else number}' AS JSON)"

    def double(self) -> str:
        kind = self.rng.randrange(4)
        if kind == 0:
            number = self.rng.uniform(-1, 1) * 10.0 ** self.rng.randrange(-310, 308)
        elif kind == 1:
            number = self.rng.randrange(10**9) / 10.0 ** self.rng.randrange(20)
        elif kind == 2:
            number = self.rng.uniform(-1e17, 1e17)
        else:
            number = struct.unpack("<d", self.rng.randbytes(7) + b"\x3e")[0]
        return f"CAST('{number!r}' AS JSON)"

    def string(self) -> str:
        return f"CAST(JSON_QUOTE({self.text()}) AS JSON)"

    def text(self) -> str:
        size = self.rng.choice([0, 1, 9, 127, 128, 3000])
        text = "".join(self.rng.choice('ab "\\/\b\f\n\r\t\x01\x1f\x7fäß€漢😀') for _ in range(size))
        return f"_utf8mb4 x'{text.encode().hex()}'"

    def temporal(self) -> str:
        rng = self.rng
        kind = rng.choice(["DATE", "DATETIME(6)", "TIME(6)"])
        date = f"{rng.randrange(1, 10000):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
        time = f"{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(10**6):06}"
        text = {
            "DATE": date,
            "DATETIME(6)": f"{date} {rng.randrange(24):02}:{time}",
            "TIME(6)": f"{rng.choice(['', '-'])}{rng.randrange(838):02}:{time}",
        }[kind]
        return f"CAST(CAST('{text}' AS {kind}) AS JSON)"

    def decimal(self) -> str:
        precision = self.rng.randrange(1, 66)
        scale = self.rng.randrange(min(precision, 30) + 1)
        digits = str(self.rng.randrange(10**precision)).rjust(precision, "0")
        whole, fraction = digits[: precision - scale] or "0", digits[precision - scale :]
        sign = self.rng.choice(["", "-"])
        return f"CAST(CAST('{sign}{whole}.{fraction}' AS DECIMAL({precision},{scale})) AS JSON)"

    def binary(self) -> str:
        size = self.rng.choice([0, 1, 2, 3, 57, 58, 300])
        return f"CAST(x'{self.rng.randbytes(size).hex()}' AS JSON)"
