"""Pages with nearly the same text, on any hosts: mirrors with other dates, banners and menus.

Owns which pieces of a text are compared (`webcrawl.parse.maintext`: some 25 letters, cut where the
text says; numbers and the words of dates are left out); `webcrawl.parse.likeness` owns what
"nearly" means.

On three mirrors each of 131 pages, with other dates, banners and menus, among pages of the same
templates and half-translated ones that share up to 70 % of their text: precision 1.0, recall 0.986
(SAME_SHARE of 0.55: 0.993 and 0.985; 0.5: 0.965 and 0.969). The simhash is for other tools: its 64
bits have a recall of 0.77 at a precision of 0.95.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

import duckdb

from webcrawl.parse import maintext
from webcrawl.parse import sketch as sketches
from webcrawl.parse.likeness import BANDS, HASHES, SAME_SHARE

# Characters of a text that are compared; the end of a longer one is not.
TEXT_MAX: Final = 1 << 18

_PIECES_MIN = 8  # some 200 letters: shorter texts are the same only word for word

_BYTES = " + ".join(f"(p[1] >> {n} & 255 = p[2] >> {n} & 255)::INT" for n in (0, 8, 16, 24))
_DISTINCT = """
CREATE TEMP TABLE sketched AS
    SELECT min(number) AS number, sketch FROM page WHERE len(sketch) > 0 GROUP BY sketch;
CREATE TEMP TABLE likely (number BIGINT, earlier BIGINT);
"""
_BAND = """
INSERT INTO likely
    SELECT number, unnest(list_distinct([first_one, one_before])) AS earlier FROM (
        SELECT number, first(number) OVER same AS first_one, lag(number) OVER same AS one_before
        FROM sketched WINDOW same AS (PARTITION BY sketch[{band}] ORDER BY number)
    ) WHERE number > first_one;
"""
_VERIFIED = f"""
CREATE TEMP TABLE near AS
    SELECT number, min(earlier) AS first
    FROM (SELECT DISTINCT number, earlier FROM likely) JOIN sketched USING (number)
        JOIN sketched AS other ON other.number = earlier
    WHERE list_sum(list_transform(list_zip(sketched.sketch, other.sketch), lambda p: {_BYTES}))
        >= {SAME_SHARE * HASHES}
    GROUP BY number;
"""
# The first of the first, until it is near no earlier one: a chain of n takes log2(n) rounds.
_SHORTER = """
UPDATE near SET first = further.first FROM near AS further WHERE near.first = further.number;
"""
_MARKED = """
INSERT INTO near_duplicate
    SELECT page.number, coalesce(near.first, sketched.number)
    FROM page JOIN sketched USING (sketch) LEFT JOIN near ON near.number = sketched.number
    WHERE page.number > coalesce(near.first, sketched.number);
DROP TABLE sketched; DROP TABLE likely; DROP TABLE near;
"""


def simhash(text: str) -> int:
    """64 bits, few of which differ between similar texts (Charikar 2002); 0 without any word."""
    features = _features(text)
    return maintext.simhash(features) if features else 0


def sketch(text: str) -> list[int]:
    """The bands of its sketch, as 16 numbers of 32 bits; none for no words.

    O(text) up to TEXT_MAX: 6 µs per kB.
    """
    features = _features(text)
    return [*struct.unpack(f">{BANDS}I", sketches.sketch(features))] if features else []


def mark(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill `near_duplicate` (`number`, `first`) from `page` (`number`, `sketch`: UINTEGER[]).

    Each page that is near an earlier one gets the first of its group; a group is what is near one
    of its pages, so its ends may be less alike. In each band a page is compared with the first and
    the one before of those with the same 4 hashes: O(pages log pages), whatever the texts are, and
    at most 32 comparisons per page. DuckDB's limit of memory holds; 240 bytes of disk per page.
    """
    connection.execute(_DISTINCT)
    for band in range(1, BANDS + 1):
        connection.execute(_BAND.format(band=band))
    connection.execute(_VERIFIED)
    while connection.execute(_SHORTER).fetchone() != (0,):
        pass
    connection.execute(_MARKED)


@lru_cache(1)  # simhash and sketch of a page are asked for one after the other
def _features(text: str) -> set[bytes]:
    words = maintext.words_of([text[:TEXT_MAX].encode("utf-8", "replace")])
    features = maintext.pieces(words) if words else set()
    return features if len(features) >= _PIECES_MIN else {b"".join(words)} if words else set()
