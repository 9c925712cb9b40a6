"""Any seed list gives canonical URLs and counted lines, or BadSeed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webcrawl.parse.urls import canonicalize
from webcrawl.spiders.seeds import BadSeed, SeedSource

in_one_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
PIECES = st.sampled_from(
    [b"a.br", b"http://", b"#", b" ", b"\t", b"\r", b"\n", b"\0", b"\xef\xbb\xbf", b"\xe9", b"h:80"]
)


@in_one_folder
@given(st.lists(PIECES | st.binary(max_size=20), max_size=40).map(b"".join), st.booleans())
def test_any_file_gives_urls_or_bad_seed(tmp_path: Path, data: bytes, packed: bool) -> None:
    path = tmp_path / "list"
    path.write_bytes(gzip.compress(data) if packed else data)
    source = SeedSource(str(path))
    urls = [url for batch in source.batches(3) for url in batch]
    assert len(urls) + source.bad <= data.count(b"\n") + 1
    assert [url for url in urls if canonicalize(url) != url] == []
    assert all("\n" not in example and len(example) < 300 for example in source.bad_examples)


@in_one_folder
@given(st.text(max_size=40) | st.lists(st.sampled_from(list("a.:/,-?#[]0 \0"))).map("".join))
def test_any_argument_gives_urls_or_bad_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if "-" in (part.strip() for part in spec.split(",")):
        return  # standard input
    problem = ""
    try:
        source = SeedSource(spec)
        source.check()
        assert next(source.batches())
    except BadSeed as error:
        problem = str(error)
    assert len(problem.splitlines()) <= 1
