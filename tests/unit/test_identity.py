"""Folders that a crawl cannot resume in: an error of one line, and the folder is unchanged."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pickle
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contracts.frontier import Driver, link
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.folderlock import LOCK, InUseError
from webcrawl.frontier.disk.frontier import FOLDER, LocalFrontier
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.store import StoreError

LATER_S = 1e6  # the clock of a run after all others


async def fetch(frontier: LocalFrontier, *urls: str) -> None:
    await frontier.put(map(link, urls), 100.0)
    await Driver(frontier).run()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a crawl that was killed in its third run: rows in tables, and in a log."""
    folder, copy = tmp_path_factory.mktemp("job"), tmp_path_factory.mktemp("killed")

    async def crawl() -> None:
        for n in range(2):
            frontier = LocalFrontier(folder)
            await fetch(frontier, *(f"http://h{n}/{page}" for page in range(20)))
            await frontier.close()
        frontier = LocalFrontier(folder)
        await fetch(frontier, "http://last/1")
        frontier._store._db._rows.flush()
        await fetch(frontier, "http://last/2")
        shutil.copytree(folder / FOLDER, copy / FOLDER)
        await frontier.close()

    asyncio.run(crawl())
    return copy


def damaged(killed: Path, tmp_path: Path, damage: Callable[[Path], None]) -> Path:
    """A copy of the folder, with damage; that of its files."""
    folder = Path(shutil.copytree(killed / FOLDER, tmp_path / FOLDER))
    damage(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.name)


def cut(pattern: str, off_bytes: int) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = newest(folder, pattern)
        os.truncate(path, path.stat().st_size - off_bytes)

    return damage


def garble(pattern: str, part: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = newest(folder, pattern)
        data = bytearray(path.read_bytes())
        at = int(part * len(data))
        data[at : at + 20] = b"\xde" * 20
        path.write_bytes(data)

    return damage


def write(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(data) and None


def remove(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.unlink()

    return damage


def append(pattern: str, data: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with newest(folder, pattern).open("ab") as file:
            file.write(data)

    return damage


def put(key: bytes, value: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        db = Database(folder)
        db.put(key, value)
        db.commit()
        db.close()

    return damage


IDENTITY = {"format": rows.FORMAT, "seen_key": 1, "settings": {}, "created": ""}

DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a table that is cut": (cut("*.sst", 50), "size mismatch"),
    "a table with a bad end": (garble("*.sst", 0.97), "cannot be used"),
    "no table": (remove("*.sst"), "No such file"),
    "a manifest that is cut": (cut("MANIFEST-*", 20), "is cut off"),
    "a manifest with a bad middle": (garble("MANIFEST-*", 0.5), "checksum mismatch"),
    "no manifest": (remove("MANIFEST-*"), "No such file"),
    "no CURRENT": (remove("CURRENT"), "it holds other files"),
    "an empty CURRENT": (write("CURRENT", b""), "cannot be used"),
    "a CURRENT of noise": (write("CURRENT", b"\0\xff\n\xfe"), "cannot be used"),
    "a CURRENT of another database": (write("CURRENT", b"MANIFEST-999999\n"), "No such file"),
    "no log": (remove("*.log"), "its log is missing"),
    "a later format": (
        put(rows.IDENTITY, json.dumps(IDENTITY | {"format": 99}).encode()),
        "has format 99, this version reads",
    ),
    "an identity of noise": (put(rows.IDENTITY, b"\xff{"), "row 'm' is damaged"),
    "half an identity": (put(rows.IDENTITY, b'{"format": %d}' % rows.FORMAT), "row 'm' is damaged"),
    "numbers of noise": (put(rows.NUMBERS, b"[]"), "row 'n' is damaged"),
    "half the numbers": (put(rows.NUMBERS, b'{"hosts": 1}'), "row 'n' is damaged"),
    "another order": (
        put(
            rows.IDENTITY,
            json.dumps(IDENTITY | {"settings": {"FRONTIER_ORDER": "depth"}}).encode(),
        ),
        "begun with FRONTIER_ORDER = 'depth'",
    ),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_folder_is_an_error_and_left_unchanged(
    tmp_path: Path, killed: Path, case: str
) -> None:
    damage, words = DAMAGES[case]
    folder = damaged(killed, tmp_path, damage)
    before = contents(folder)
    with pytest.raises(StoreError, match=words) as raised:
        LocalFrontier(tmp_path)
    assert str(raised.value).startswith(str(tmp_path))
    assert "\n" not in str(raised.value)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda _: None, range(42, 43)),
        (cut("*.log", 9), range(41, 42)),  # a commit was being written
        (append("*.log", bytes(999)), range(42, 43)),
        # A full disk cuts the record that is appended to the manifest.
        (append("MANIFEST-*", b"1234\x99\0\1half"), range(42, 43)),
        (write("rocksdict-config.json", b'{"ra'), range(42, 43)),
        (garble("OPTIONS-*", 0.5), range(42, 43)),
    ],
    ids=["nothing", "log cut", "log padded", "manifest half written", "config torn", "options"],
)
async def test_a_crawl_resumes_after_a_kill_or_a_full_disk(
    tmp_path: Path, killed: Path, damage: Callable[[Path], None], expected: range
) -> None:
    damaged(killed, tmp_path, damage)
    frontier = LocalFrontier(tmp_path, utc_s=LATER_S)
    assert frontier.warnings == []
    assert frontier.counters.crawled in expected
    await frontier.close()


async def test_a_damaged_log_is_read_up_to_the_damage_with_a_warning(
    tmp_path: Path, killed: Path
) -> None:
    damaged(killed, tmp_path, garble("*.log", 0.5))
    frontier = LocalFrontier(tmp_path, utc_s=LATER_S)
    (warning,) = frontier.warnings
    assert "is damaged: it resumes from the last commit before" in warning
    assert 41 <= frontier.counters.crawled < 42
    frontier.audit()
    await frontier.close()


async def test_a_table_damaged_within_is_an_error_when_it_is_read(
    tmp_path: Path, killed: Path
) -> None:
    shutil.copytree(killed / FOLDER, tmp_path / FOLDER)
    for table in (tmp_path / FOLDER).glob("*.sst"):
        garble(table.name, 0.1)(tmp_path / FOLDER)

    async def resume() -> None:
        frontier = LocalFrontier(tmp_path)
        try:
            await fetch(frontier, *(f"http://h{n}/{page}" for n in range(2) for page in range(20)))
        finally:
            await frontier.close()

    with pytest.raises(StoreError, match="checksum mismatch"):
        await resume()


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (f"{FOLDER}/thesis.txt", "it holds other files"),
        (FOLDER, "Not a directory"),
        ("requests.queue/0", "a crawl of plain Scrapy"),
    ],
)
def test_a_foreign_folder_is_left_unchanged(tmp_path: Path, file: str, words: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match=words):
        LocalFrontier(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_another_programs_database_is_left_unchanged(tmp_path: Path) -> None:
    put(b"theirs", b"1")(tmp_path / FOLDER)
    before = contents(tmp_path / FOLDER)
    for opened in (LocalFrontier, lambda folder: Inspection(folder / FOLDER)):
        with pytest.raises(StoreError, match="is no frontier"):
            opened(tmp_path)
    assert contents(tmp_path / FOLDER) == before


async def test_a_crawl_that_was_killed_while_rocksdb_made_its_first_files_begins(
    tmp_path: Path,
) -> None:
    (tmp_path / FOLDER).mkdir()
    for name in ("rocksdict-config.json", "LOG", "LOCK", "IDENTITY", "000000.dbtmp"):
        (tmp_path / FOLDER / name).touch()
    frontier = LocalFrontier(tmp_path)
    assert not frontier.resumed
    await frontier.close()


async def test_a_folder_is_locked_by_one_crawl_at_a_time(tmp_path: Path) -> None:
    first = LocalFrontier(tmp_path)
    with pytest.raises(StoreError, match=f"in use by another crawl, process {os.getpid()}"):
        LocalFrontier(tmp_path)
    await first.close()
    await LocalFrontier(tmp_path).close()


async def test_only_the_owner_can_lock_the_folder(tmp_path: Path) -> None:
    lock = tmp_path / LOCK
    lock.touch(0o666)  # of an earlier version
    lock.chmod(0o666)
    first = LocalFrontier(tmp_path)
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    await first.close()


@pytest.mark.parametrize("text", ["", "1\n", "4194305\n", "\xff"])  # 1 lives, no number is 4194305
async def test_a_process_that_does_not_hold_the_lock_is_not_named(
    tmp_path: Path, text: str
) -> None:
    lock = tmp_path / LOCK
    lock.write_text(text)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        with pytest.raises(InUseError, match="is in use: another process has locked"):
            LocalFrontier(tmp_path)
    await LocalFrontier(tmp_path).close()


async def test_a_crawl_with_a_proxy_does_not_resume_without_it(tmp_path: Path) -> None:
    def settings(proxy: str) -> dict[str, object]:
        return {"FRONTIER_ORDER": "level", **({"PROXY": proxy} if proxy else {})}

    async def begin(proxy: str) -> None:
        frontier = LocalFrontier(tmp_path, identity=settings(proxy))
        await fetch(frontier, "http://a/")
        await frontier.close()

    await begin("set")
    with pytest.raises(StoreError, match="begun with PROXY, and resumes only with it"):
        await begin("")
    await begin("set")
    await begin("direct")
    await begin("")


class _Code:
    """A pickle that runs code when it is read."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("run",)


async def test_inspecting_a_foreign_folder_runs_none_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await LocalFrontier(tmp_path).close()
    db = Database(tmp_path / FOLDER)
    db.put(rows.HOST + b"h", pickle.dumps(_Code()))
    db.commit()
    db.close()
    inspection = Inspection(tmp_path / FOLDER)
    with pytest.raises(StoreError, match="a row of the frontier is damaged"):
        list(inspection.hosts())
    inspection.close()
    assert not Path("run").exists()
