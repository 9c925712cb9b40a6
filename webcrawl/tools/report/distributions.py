"""Distributions of sizes and counts, in bins that are equally wide on a logarithmic axis."""

from __future__ import annotations

from collections import Counter

import duckdb

from webcrawl.tools.report.summary import QUANTILES, quantiles_sql
from webcrawl.tools.report.tables import Table, listed, queried

PER_DECADE = 10


def _bound(number: str) -> str:
    """The least whole number of the bin with this number: 1, 10, 13, 16, 20 ..."""
    return f"ceil(10 ** (({number}) / {PER_DECADE}) - 1e-6)::BIGINT"


# Of integers below 10 each has a bin of its own: bins of a tenth of a decade would be empty.
_BIN = f"floor({PER_DECADE} * log10(value) + 1e-9)"
_FROM = f"CASE WHEN value < 10 THEN value::BIGINT ELSE {_bound(_BIN)} END"
_BELOW = f"CASE WHEN value < 10 THEN value::BIGINT + 1 ELSE {_bound(f'{_BIN} + 1')} END"


def binned(log: duckdb.DuckDBPyConnection, name: str, values: str) -> Table:
    """How many documents have how much of `values`, a query of whole numbers, one per document.

    `from` and `below` are the bounds of a bin, `sum` is that of the values in it.
    """
    sql = f"""SELECT {_FROM} AS "from", {_BELOW} AS below, count(*) AS documents,
            sum(value)::BIGINT AS sum
        FROM ({values}) GROUP BY ALL ORDER BY 1"""
    return queried(log, name, sql)


def column(name: str) -> str:
    """The query of a column of the documents, for `binned` and `quantiles`."""
    return f"SELECT coalesce({name}, 0) AS value FROM document"


def counted(log: duckdb.DuckDBPyConnection, counter: Counter[int]) -> str:
    """The query of counted values, which become the table `counted`."""
    pairs = [list(counter), list(counter.values())]
    log.execute("CREATE TABLE counted AS SELECT unnest(?) AS value, unnest(?) AS times", pairs)
    return "SELECT value FROM (SELECT value, unnest(range(times)) FROM counted)"


def quantiles(log: duckdb.DuckDBPyConnection, values: str) -> list[float]:
    """Mean, QUANTILES and maximum of `values`; empty if there are none."""
    rows = f"SELECT 1 AS each, value FROM ({values})"
    found = log.execute(quantiles_sql("each", "value", rows)).fetchall()
    return [] if not found else [found[0][2], *found[0][4:]]


def spread(rows: dict[str, list[float]]) -> Table:
    """Mean, quantiles and maximum of each of the distributions, by name."""
    columns = ("of", "mean", *(f"p{q * 100:.0f}" for q in QUANTILES), "max")
    return listed("spread", columns, ((name, *values) for name, values in rows.items() if values))
