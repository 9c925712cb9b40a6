"""Distributions of sizes and counts, in bins that are equally wide on a logarithmic axis."""

from __future__ import annotations

from collections import Counter
from math import ceil

import duckdb

from webcrawl.tools.report.summary import QUANTILES, quantiles_sql
from webcrawl.tools.report.tables import Row, Table, listed

PER_DECADE = 10
# Of integers below 10 each has a bin of its own: bins of a tenth of a decade would be empty.
_BIN = f"""CASE WHEN value < 10 THEN value
    ELSE ceil(10 ** (floor({PER_DECADE} * log10(value) + 1e-9) / {PER_DECADE}) - 1e-6) END"""


def of_documents(log: duckdb.DuckDBPyConnection, name: str, column: str) -> Table:
    """How many documents have how much of `column`, a whole number. Columns of `binned`."""
    counts = log.execute(
        f"""SELECT {_BIN}::BIGINT, count(*), sum(value)::BIGINT
        FROM (SELECT coalesce({column}, 0) AS value FROM document) GROUP BY 1 ORDER BY 1"""
    ).fetchall()
    return binned(name, counts)


def of_counter(name: str, counter: Counter[int]) -> Table:
    """The same for counted values."""
    bins: dict[int, list[int]] = {}
    for value, times in counter.items():
        each = bins.setdefault(bin_of(value), [0, 0])
        each[0] += times
        each[1] += times * value
    return binned(name, [(low, *bins[low]) for low in sorted(bins)])


def binned(name: str, counts: list[Row]) -> Table:
    """`from` and `below` are the bounds of a bin, `sum` is that of the values in it."""
    rows = ((low, next_bin(low), documents, total) for low, documents, total in counts)
    return listed(name, ("from", "below", "documents", "sum"), rows)


def bin_of(value: int) -> int:
    """The lower bound of the bin of a whole number, as in `_BIN`."""
    if value < PER_DECADE:
        return value
    return max(low for low in _bounds(len(str(value))) if low <= value)


def next_bin(low: int) -> int:
    return min(bound for bound in _bounds(len(str(low)) + 1) if bound > low)


def _bounds(decades: int) -> list[int]:
    return [*range(PER_DECADE), *(ceil(10 ** (n / 10) - 1e-6) for n in range(10, 10 * decades + 1))]


def quantiles(log: duckdb.DuckDBPyConnection, column: str) -> list[float]:
    """Mean, QUANTILES and maximum of a column of the documents; empty if there are none."""
    rows = f"SELECT 1 AS each, coalesce({column}, 0) AS value FROM document"
    found = log.execute(quantiles_sql("each", "value", rows)).fetchall()
    return [] if not found else [found[0][2], *found[0][4:]]


def quantiles_of(counter: Counter[int]) -> list[float]:
    """The same for counted values. A quantile is the smallest value with so large a share."""
    times = counter.total()
    if not times:
        return []
    found, seen = [], 0
    wanted = [*QUANTILES]
    for value in sorted(counter):
        seen += counter[value]
        while wanted and seen >= wanted[0] * times:
            found.append(float(value))
            wanted.pop(0)
    mean = sum(value * n for value, n in counter.items()) / times
    return [mean, *found, float(max(counter))]


def spread(rows: dict[str, list[float]]) -> Table:
    """Mean, quantiles and maximum of each of the distributions, by name."""
    columns = ("of", "mean", *(f"p{q * 100:.0f}" for q in QUANTILES), "max")
    return listed("spread", columns, ((name, *values) for name, values in rows.items() if values))
