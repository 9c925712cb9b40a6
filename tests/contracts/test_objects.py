"""Files as objects of a store: the same promises of a bucket on a real server, and of a folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.objectserver import BUCKET, SECRET, Between, environment, s3_server
from webcrawl.tools.stored import NoStoreError, StoredFile, named_files
from webcrawl.warc.objects import PART_BYTES, Objects, ObjectsError

pytestmark = pytest.mark.slow

URL = f"s3://{BUCKET}/some/where"


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    with s3_server() as port:
        yield port


@pytest.fixture
def between(server: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    """The way to the server; the environment of this process leads there."""
    with Between(server) as way:
        for name, value in environment(way.port).items():
            monkeypatch.setenv(name, value)
        yield way


@pytest.fixture(params=["s3", "file"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, between: Between) -> Objects:
    if request.param == "s3":
        return Objects(f"{URL}/{tmp_path.name}")
    (tmp_path / "store").mkdir()
    return Objects(f"file://{tmp_path}/store")


def made(folder: Path, content: bytes, name: str = "given") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def content(objects: Objects, name: str, folder: Path) -> bytes:
    objects.fetch(name, objects.sizes()[name], folder / "fetched")
    return (folder / "fetched").read_bytes()


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1])
def test_a_file_is_sent_once(objects: Objects, tmp_path: Path, size: int) -> None:
    path = made(tmp_path, bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    objects.probe()
    assert objects.send(path, "a/name")
    assert not objects.send(path, "a/name")
    assert objects.sizes() == objects.sizes("a") == {"a/name": size}
    assert content(objects, "a/name", tmp_path) == path.read_bytes()
    objects.delete(["a/name"])
    assert objects.sizes() == {}


@pytest.mark.parametrize("other", [b"other", b"some of another size"])
def test_another_file_of_the_same_name_stays_unless_it_may_be_replaced(
    objects: Objects, tmp_path: Path, other: bytes
) -> None:
    assert objects.send(made(tmp_path, b"known"), "name")
    path = made(tmp_path, other, "other")
    with pytest.raises(FileExistsError):
        objects.send(path, "name")
    assert content(objects, "name", tmp_path) == b"known"
    assert objects.send(path, "name", replaces=True)
    assert content(objects, "name", tmp_path) == other


def test_a_file_is_not_its_own_object(tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ObjectsError, match="the folder has the files themselves"):
        Objects(f"file://{link}").send(made(tmp_path, b"x", "name"), "name")


@pytest.mark.parametrize("size", [10, PART_BYTES + 10])
def test_an_object_with_other_bytes_than_were_sent_does_not_count(
    between: Between, tmp_path: Path, size: int
) -> None:
    objects = Objects(f"{URL}/{tmp_path.name}")
    path = made(tmp_path, b"-" * (size - 6) + b"BEFORE")
    between.asked = (b"BEFORE", b"AFTER!")  # and the server takes it
    with pytest.raises(ObjectsError, match="it is not there as it was sent"):
        objects.send(path, "name")
    assert objects.sizes() == {}
    between.asked = (b"\0never\0", b"")
    assert objects.send(path, "name")
    assert content(objects, "name", tmp_path) == path.read_bytes()


def test_an_etag_that_is_no_digest_lets_the_object_be_read_back(
    between: Between, tmp_path: Path
) -> None:
    objects = Objects(f"{URL}/{tmp_path.name}")
    path = made(tmp_path, b"abc")
    between.answered = (b"900150983cd24fb0d6963f7d28e17f72", b"0x8DC" + b"0" * 27)
    assert objects.send(path, "name")
    assert not objects.send(path, "name")
    path.write_bytes(b"abd")
    with pytest.raises(FileExistsError):
        objects.send(path, "name")


def test_a_store_that_cannot_be_used_is_one_line_without_a_secret(
    server: int, between: Between, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(url: str) -> str:
        with pytest.raises(ObjectsError) as raised:
            Objects(url, is_start=True).probe()
        line = str(raised.value.strerror)
        assert "\n" not in line
        assert SECRET not in line
        return line

    assert said("s3://nobody/x") == "NoSuchBucket: The specified bucket does not exist"
    between.answered = (b"bucket does", b"bucket\nTime")  # as Azure says it
    assert said("s3://nobody/x") == "NoSuchBucket: The specified bucket"
    between.answered = (b"\0never\0", b"")
    assert said(f"file://{tmp_path}/none") == "the folder is not there"
    assert said("az://container/x") == "Account must be specified"
    between.asked = (b"HEAD /", b"BREW /")  # a right that is missing
    assert "405" in said(f"{URL}/unread")
    between.asked = (b"\0never\0", b"")
    assert Objects(f"{URL}/unread").sizes() == {}
    let_only_known_keys_in(server, after=0)
    assert said(URL).startswith("InvalidAccessKeyId: ")
    let_only_known_keys_in(server, after=float("inf"))
    between.is_away = True
    away = f"127.0.0.1:{between.port}: HTTP error: error sending request"
    assert said(URL) == away
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{SECRET}@127.0.0.1:{between.port}")
    assert said(URL) == away


def test_a_store_without_credentials_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(*arguments: object) -> None:
        asked = "http://169.254.169.254/latest/api/token in 10.1s, after 1 retries "
        raise ValueError(f"Generic S3 error: Error performing PUT {asked} - HTTP error: no answer")

    monkeypatch.setattr("obstore.put", put)
    with pytest.raises(ObjectsError, match="no credentials in the environment, and none at 169"):
        Objects(URL).probe()


def let_only_known_keys_in(server: int, after: float) -> None:
    """After so many requests. moto knows no key, and takes any by default."""
    url = f"http://127.0.0.1:{server}/moto-api/reset-auth"
    data, headers = str(after).encode(), {"Content-Type": "text/plain"}
    urlopen(Request(url, data=data, headers=headers, method="POST")).close()


def test_of_an_upload_that_is_killed_no_object_is_there(between: Between, tmp_path: Path) -> None:
    url = f"{URL}/{tmp_path.name}"
    path = made(tmp_path, b"x" * (2 * PART_BYTES))
    between.bytes_max = PART_BYTES // 2
    text = (
        f"from webcrawl.warc.objects import *; Objects({url!r}).send(Path({str(path)!r}), 'name')"
    )
    process = subprocess.Popen([sys.executable, "-c", text], cwd=Path(__file__).parents[2])
    assert between.stopped.wait(60)
    process.kill()
    process.wait()
    between.bytes_max = 1 << 62
    objects = Objects(url)
    assert objects.sizes() == {}
    assert objects.send(path, "name")


def test_of_an_upload_to_a_folder_that_is_killed_nothing_stays(tmp_path: Path) -> None:
    (store := tmp_path / "store").mkdir()
    made(store, b"fi", "name#1")
    assert Objects(f"file://{store}").send(made(tmp_path, b"file", "name"), "name")
    assert [path.name for path in store.iterdir()] == ["name"]


def test_a_tool_that_reads_one_file_lists_no_bucket(tmp_path: Path, between: Between) -> None:
    """A corpus looks for an index beside each of its files: each list has all files."""
    url = f"{URL}/{tmp_path.name}"
    Objects(url).send(made(tmp_path, b"log"), "log")
    between.asked = (f"GET /{BUCKET}?list".encode(), b"GET /absent?list")
    with pytest.raises(ObjectsError):
        Objects(url).sizes()
    file = StoredFile(url, "log")
    assert file.is_file()
    assert not file.with_name("index").is_file()
    assert file.fetched(tmp_path / "here").read_bytes() == b"log"


def test_a_folder_whose_files_are_all_further_down_has_none(tmp_path: Path) -> None:
    (tmp_path / "crawl").mkdir()
    made(tmp_path / "crawl", b"", "x.warc.gz")
    with pytest.raises(NoStoreError, match=r"has no files \*\.warc\.gz"):
        named_files(f"file://{tmp_path}", ".warc.gz")
