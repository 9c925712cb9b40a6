"""The index of earlier archives (DEDUP_INDEX): made of CDXJ files, and looked up."""

from __future__ import annotations

import gzip
import hashlib
import json
from contextlib import closing, suppress
from pathlib import Path

import pytest
from rocksdict import AccessType

from tests.exchanges import EXCHANGES, capture, write
from webcrawl.warc import earlierbuild
from webcrawl.warc.earlier import Earlier, opened
from webcrawl.warc.earlierbuild import open_earlier
from webcrawl.warc.earlierlines import EarlierError, Entry, Lines, sources_of
from webcrawl.warc.records import Original, labelled, payload_digest, raw_digest


def digest(n: int) -> bytes:
    return hashlib.sha1(b"%d" % n, usedforsecurity=False).digest()


def line(n: int, url: str = "", time: str = "20260301120041", **fields: object) -> str:
    url = url or f"http://a{n % 7}.test/{n}"
    values = {"url": url, "mime": "text/html", "status": "200", "digest": labelled(digest(n))}
    values |= {"length": "9", "offset": "1", "filename": "a.warc.gz"}
    kept = {name: value for name, value in (values | fields).items() if value is not None}
    return f"test,a)/{n} {time} {json.dumps(kept)}\n"


def made(folder: Path, *texts: str, says: list[str] | None = None) -> Earlier:
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"{number}.cdxj")
        if not paths[-1].exists() or paths[-1].read_text() != text:
            paths[-1].write_text(text)
    return open_earlier(folder / "index", paths, (says if says is not None else []).append)


def test_each_capture_is_found(tmp_path: Path) -> None:
    earlier = made(tmp_path, "".join(map(line, range(3000))), "".join(map(line, range(2000, 5000))))
    assert earlier.entries == 5000
    for n in range(0, 5000, 7):
        assert earlier.find(digest(n)) == Original(
            f"http://a{n % 7}.test/{n}", 1772366441, labelled(digest(n)), "2026-03-01T12:00:41Z"
        )
    assert not any(earlier.find(digest(n)) for n in range(5000, 9000))
    earlier.close()


def test_the_first_capture_counts(tmp_path: Path) -> None:
    again = line(1, "http://b.test/", "20270101000000")
    found = made(tmp_path, line(1) + again, again).find(digest(1))
    assert found is not None
    assert found.url == "http://a1.test/1"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        (line(1), True),
        (line(1).rstrip("\n"), True),  # the last line of a file
        (line(1).replace("\n", "\r\n"), True),
        (line(1, digest=labelled(digest(1))[5:]), True),  # as pywb's own indexer writes it
        (line(1, digest="sha1:" + digest(1).hex()), True),
        (line(1, mime=None, status=None), True),
        (line(1, 'http://a.test/"q"'), True),
        (line(1, method="GET"), True),
        ("!meta 0 {}\n\n" + line(1), True),
        (line(1, mime="warc/revisit"), False),
        (line(1, method="POST", requestBody="x"), False),
        (line(1, digest="sha256:" + "a" * 64), False),
        (line(1, digest="-"), False),
        (line(1, digest=None), False),
        (line(1, "dns:a.test"), False),
        (line(1, time="20261901000000"), False),
    ],
)
def test_lines_of_many_writers(tmp_path: Path, text: str, is_found: bool) -> None:
    assert (made(tmp_path, text).find(digest(1)) is not None) is is_found


def test_a_url_cannot_add_a_line_to_a_record(tmp_path: Path) -> None:
    found = made(tmp_path, line(1, "http://a.test/\r<x y>")).find(digest(1))
    assert found is not None
    assert found.url == "http://a.test/%0D%3Cx%20y%3E"


@pytest.mark.parametrize(
    "broken",
    [
        *("garbage", "test,a)/ 20260301120041", 'test,a)/ 2026 {"url": "http://a.test/"}'),
        *(line(5)[:-40], line(5).replace("}", ""), "\0\0\0\0", "a 20260301120041 []"),
        pytest.param('a 20260301120041 {"url": ' + "[" * 100_000, id="too deep"),
    ],
)
def test_a_broken_line_is_an_error_with_its_place(tmp_path: Path, broken: str) -> None:
    with pytest.raises(EarlierError, match=r"1\.cdxj, line 3: no CDXJ"):
        made(tmp_path, line(1), line(2) + line(3) + broken + "\n" + line(4))
    made(tmp_path, line(1), line(2) + line(3) + line(4))  # once it is repaired


def test_an_endless_line_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EarlierError, match="line 2: a line of more than 1 MiB"):
        made(tmp_path, line(1) + "a" * (3 << 20))


def test_packed_files_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "archives" / "deep"
    folder.mkdir(parents=True)
    members = [gzip.compress("".join(map(line, range(n, n + 50))).encode()) for n in (0, 50)]
    (folder / "a.cdxj.gz").write_bytes(b"".join(members))  # as ZipNum has them
    (folder / "b.cdxj").write_text(line(200))
    (folder / "notes.txt").write_text("no index")
    sources = sources_of([str(tmp_path / "archives"), str(folder / "b.cdxj")])
    assert [path.name for path in sources] == ["a.cdxj.gz", "b.cdxj"]
    earlier = open_earlier(tmp_path / "index", sources, [].append)
    assert all(earlier.find(digest(n)) for n in (0, 49, 50, 99, 200))
    (folder / "a.cdxj.gz").write_bytes(members[0] + members[1][:-30])
    with pytest.raises(EarlierError, match=r"a\.cdxj\.gz, line \d+: "):
        open_earlier(tmp_path / "index", sources, [].append)


@pytest.mark.parametrize("name", ["a.cdxj", "a.cdxj.gz"])
def test_lines_are_read_from_a_position_on(tmp_path: Path, name: str) -> None:
    texts = ["".join(map(line, range(n, n + 50))).encode() for n in (0, 50)]
    packed = b"".join(map(gzip.compress, texts)) if name.endswith(".gz") else b"".join(texts)
    (tmp_path / name).write_bytes(packed)
    lines = Lines(tmp_path / name)
    whole = list(lines)
    assert (lines.line, lines.position) == (100, len(b"".join(texts)))
    for count in (0, 1, 49, 50, 51, 100):
        at = sum(map(len, whole[:count])) + count
        assert list(Lines(tmp_path / name, at, count)) == whole[count:]


def test_sources_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.cdx").write_text("")
    for name, problem in (
        (tmp_path, "without files"),
        (tmp_path / "x.cdx", "is no file"),
        (tmp_path / "none", "does not exist"),
    ):
        with pytest.raises(EarlierError, match=problem):
            sources_of([str(name)])


def test_it_is_made_once(tmp_path: Path) -> None:
    said: list[str] = []
    for text in (line(1), line(1), line(1) + line(2)):
        earlier = made(tmp_path, text, says=said)
        earlier.close()
    assert [said[0], said[1]] == [
        "1 content of 1 capture in 1 line",
        "2 contents of 2 captures in 2 lines",
    ]
    assert Earlier(tmp_path / "index").find(digest(2)) is not None
    with pytest.raises(EarlierError, match="has no index"):
        Earlier(tmp_path)


@pytest.mark.parametrize("dies_at", range(1, 6))
def test_a_build_that_was_killed_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    """Killed before each of its commits, and once more at the same distance."""
    monkeypatch.setattr(earlierbuild, "BATCH", 256)
    texts = ["".join(map(line, range(n, n + 500))) for n in (0, 400)]
    said: list[str] = []
    read: list[bytes] = []
    commit, entry = earlierbuild._Build._commit, Lines.entry

    def dying(build: earlierbuild._Build) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        commit(build)

    def reading(lines: Lines, line: bytes) -> Entry | None:
        read.append(line)
        return entry(lines, line)

    monkeypatch.setattr(earlierbuild._Build, "_commit", dying)
    monkeypatch.setattr(Lines, "entry", reading)
    for _ in range(2):
        left = dies_at
        try:
            made(tmp_path, *texts).close()
        except KeyboardInterrupt:
            pass
    left = -1
    with closing(made(tmp_path, *texts, says=said)) as earlier:
        assert earlier.entries == 900
        assert all(earlier.find(digest(n)) for n in range(900))
    assert said[-1:] in ([], ["900 contents of 1,000 captures in 1,000 lines"])
    assert len(read) <= 1000 + 2 * 2 * 256  # what was committed is not read again


@pytest.mark.parametrize("is_done", [False, True])
def test_of_other_files_it_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(earlierbuild, "BATCH", 1)
        broken = "" if is_done else "garbage"
        with suppress(EarlierError):
            made(tmp_path, line(1) + line(2) + broken).close()
    (tmp_path / "index" / "other").mkdir()
    said: list[str] = []
    with closing(made(tmp_path, line(2), says=said)) as earlier:
        assert earlier.find(digest(1)) is None
        assert earlier.find(digest(2)) is not None
    assert said == ["1 content of 1 capture in 1 line"]
    assert not (tmp_path / "index" / "other").exists()


def test_another_process_makes_it(tmp_path: Path) -> None:
    other = opened(tmp_path / "index", AccessType.read_write())
    with closing(other), pytest.raises(EarlierError, match="another"):
        made(tmp_path, line(1))


def test_a_file_that_was_cut_is_an_error(tmp_path: Path) -> None:
    made(tmp_path, "".join(map(line, range(1000)))).close()
    (table,) = (tmp_path / "index").glob("*.sst")
    size = table.stat().st_size
    with closing(Earlier(tmp_path / "index")) as earlier:
        with table.open("r+b") as file:
            file.write(b"\0" * size)
        with pytest.raises(EarlierError, match="cannot be read"):
            earlier.find(digest(1))


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def put(self, *_: object) -> None:
            raise Exception("IO error: No space left on device")

    monkeypatch.setattr(earlierbuild, "WriteBatch", lambda **_: Full())
    rows = opened(tmp_path / "index", AccessType.read_write())
    build = earlierbuild._Build(rows, [], [].append)
    with closing(rows), pytest.raises(EarlierError, match="written: IO error: No space"):
        build._commit()


def test_the_index_of_our_own_archive(tmp_path: Path) -> None:
    plain = EXCHANGES["plain"]
    (path,) = write(tmp_path, [capture(plain)])
    earlier = open_earlier(tmp_path / "index", sources_of([str(path.parent)]), [].append)
    found = earlier.find(raw_digest(payload_digest(plain)))
    assert found is not None
    assert capture(plain, found).is_revisit
