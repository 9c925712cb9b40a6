"""The seed list: the meaning of `-a seeds=`, and how its lines are read."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zipfile
from pathlib import Path
from random import Random

import pytest

from tests.cases import each_of
from webcrawl.spiders.seeds import MAX_LINE, BadSeed, SeedSource, line_url

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rest_of(source: SeedSource) -> list[str]:
    return [url for batch in source.batches() for url in batch]


def urls(spec: str, root: Path | None = None) -> list[str]:
    return rest_of(SeedSource(spec, root))


def write(name: str, data: str | bytes) -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@each_of(
    ("spec", "expected"),
    [
        ("http://h/", ["http://h/"]),
        ("HTTPS://H.example", ["https://h.example/"]),
        ("ufmg.br", ["http://ufmg.br/"]),
        ("host:8080/path", ["http://host:8080/path"]),
        ("localhost", ["http://localhost/"]),
        ("127.0.0.1:8080", ["http://127.0.0.1:8080/"]),
        ("[::1]:8080/a", ["http://[::1]:8080/a"]),
        ("ufmg.br/cursos?a=1", ["http://ufmg.br/cursos?a=1"]),
        ("a.br,b.br", ["http://a.br/", "http://b.br/"]),
        (" a.br , b.br,", ["http://a.br/", "http://b.br/"]),
        ("http://h/a,b", ["http://h/a,b"]),
        ("http://h/a,b.html,c", ["http://h/a,b.html,c"]),
        ("http://h/0,1518,00.html", ["http://h/0,1518,00.html"]),
        ("http://h?ll=-19.8,-43.9", ["http://h/?ll=-19.8,-43.9"]),
        ("http://h/a,http://g/b", ["http://h/a", "http://g/b"]),
        ("http://h/a,g.br", ["http://h/a", "http://g.br/"]),
        ("http://h.br,g.br", ["http://h.br/", "http://g.br/"]),
        ("http://h/,g:80/x", ["http://h/", "http://g/x"]),
        ("http://h/a,", ["http://h/a"]),
        ("sitemap:h.br/map.php", ["sitemap:http://h.br/map.php"]),
        ("sitemap:h.br/map.txt,g.br", ["sitemap:http://h.br/map.txt", "http://g.br/"]),
        ("http://h/a,sitemap:g.br/b", ["http://h/a", "sitemap:http://g.br/b"]),
        ("sitemap:8080/a", ["http://sitemap:8080/a"]),
        ("sitemap:sitemap:8080/a", ["sitemap:http://sitemap:8080/a"]),
    ],
)
def test_a_spec_means_urls_and_hosts(spec: str, expected: list[str]) -> None:
    assert urls(spec) == expected


@each_of("spec", ["http://h/a,list.txt", "list.txt,http://h/a", "ufmg.br,list.txt", "a,b.txt"])
def test_a_spec_mixes_files_and_urls(spec: str) -> None:
    write("list.txt", "x.example\n")
    write("a,b.txt", "x.example\n")
    assert "http://x.example/" in urls(spec)


def test_an_existing_file_wins_over_a_host() -> None:
    write("ufmg.br", "other.example\n")
    assert urls("ufmg.br") == ["http://other.example/"]


def test_a_folder_is_not_a_file() -> None:
    Path("ufmg.br").mkdir()
    assert urls("ufmg.br") == ["http://ufmg.br/"]


MISSING = (
    *("nosuch.txt", "nosuch.gz", "nosuch", "seeds/nosuch", "./br", "/nosuch/br.list", "../nosuch"),
    *("ufmg.br,nosuch.txt", "http://h/a,nosuch.txt"),
)
OF_NO_WEB = ("ftp://h/", "file:///etc/hosts", "http://", "https://a b/")


@each_of(
    ("spec", "why"),
    [
        *(
            (spec, f"there is no file '{spec.rpartition(',')[2]}'.*files, URLs, hosts")
            for spec in MISSING  # which is not a host
        ),
        *((spec, "is not an http or https URL") for spec in OF_NO_WEB),
        ("a.br,/dev/zero", "/dev/zero is a device: give a file"),
    ],
)
def test_what_is_neither_file_nor_url_nor_host_is_refused_before_it_is_read(
    spec: str, why: str
) -> None:
    with pytest.raises(BadSeed, match=why):
        SeedSource(spec)


@each_of("spec", ["br.tx", "br.text", "seeds/br.tx", "seeds/br.txtt"])
def test_a_mistyped_file_is_not_a_host(spec: str) -> None:
    write("br.txt", "a.br")
    write("seeds/br.txt", "a.br")
    parent = "seeds/" if "/" in spec else ""
    with pytest.raises(BadSeed, match=f"no file '{spec}'; did you mean {parent}br.txt"):
        SeedSource(spec)


@each_of("spec", ["", " ", ",", "empty.txt", "comments.txt", "empty.txt,comments.txt"])
def test_a_spec_without_a_url_is_refused(spec: str) -> None:
    write("empty.txt", "")
    write("comments.txt", "# one\n\n   \n#two")
    with pytest.raises(BadSeed, match=r"there is no URL in|no seeds are given") as caught:
        SeedSource(spec).check()
    assert "\n" not in str(caught.value)


def test_bad_seed_names_the_first_bad_line() -> None:
    write("bad.txt", "#\nfoo bar\nftp://h/\n")
    with pytest.raises(BadSeed, match=r"2 bad lines, the first is bad.txt:2: not a URL: 'foo bar'"):
        SeedSource("bad.txt").check()


@each_of("encoding", ["utf-16", "utf-16-be"])
def test_a_list_in_utf_16_is_said_to_be_one(encoding: str) -> None:
    mark = "\ufeff" if encoding.endswith("be") else ""
    Path("w.txt").write_bytes(f"{mark}http://a.br/\n".encode(encoding))
    with pytest.raises(BadSeed, match=r"w.txt:1: cannot be read further: it is UTF-16: save it as"):
        SeedSource("w.txt").check()


def test_a_name_that_is_not_utf_8_is_refused() -> None:
    name = os.fsdecode(b"s\xe4men.txt")
    write(name, "a.br")
    with pytest.raises(BadSeed, match="is not UTF-8"):
        SeedSource(name)


def test_an_unreadable_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    write("list.txt", "a.br")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(BadSeed, match=r"list.txt cannot be read"):
        SeedSource("list.txt")


@each_of(
    ("data", "expected"),
    [
        (b"a.br\nb.br\n", ["a.br", "b.br"]),
        (b"a.br\r\nb.br\r\n", ["a.br", "b.br"]),
        (b"\xef\xbb\xbfa.br\nb.br", ["a.br", "b.br"]),
        (b"\xef\xbb\xbf# comment\na.br", ["a.br"]),
        (b"# c\n\n  \t\n  a.br  \n#b.br\nb.br # c\n", ["a.br", "b.br"]),
        (b"a.br#frag\n", ["a.br"]),
        (b"a.br\n" + b"\x00\nb\x00.br\nb.br", ["a.br", "b.br"]),
        (b"a.br\x00\nb.br", ["b.br"]),
        (b"a.br\rb.br\nc.br", ["c.br"]),
        (b"x" * 1_000_000 + b"\na.br", ["a.br"]),
        (b"a.br/" + b"x" * MAX_LINE + b"\nb.br", ["b.br"]),
        (b"a.br/" + b"x" * MAX_LINE, []),
        (b"#" * 100_000 + b"\na.br", ["a.br"]),
        (b"joao@ufmg.br\nword\n3.14\nmailto:a@b.br\n//a.br/\ntel:\na.br", ["a.br"]),
        (b"a.br b.br\na.br\tb\nhttp://a.br/x y\nb.br", ["b.br"]),
        (b"http://a.br:99999/\nhttp://[::g]/\nb.br", ["b.br"]),
    ],
)
def test_lines_are_read_as_urls(data: bytes, expected: list[str]) -> None:
    write("l.txt", data)
    assert urls("l.txt") == [f"http://{host}/" for host in expected]


def test_a_line_with_many_marks_is_no_url() -> None:
    assert line_url("sitemap:" * 2_000 + "http://h/") is None


def test_utf8_is_read_as_utf8_and_other_bytes_are_kept() -> None:
    write("l.txt", "http://a.br/ação\nmünchen.de\n".encode() + b"http://a.br/a\xe7\xe3o\n")
    assert urls("l.txt") == [
        *("http://a.br/a%C3%A7%C3%A3o", "http://xn--mnchen-3ya.de/", "http://a.br/a%E7%E3o")
    ]


def test_bad_lines_are_counted_and_the_first_shown_with_their_numbers() -> None:
    write("l.txt", "a.br\n" + "".join(f"bad line {n}\n" for n in range(50)) + "b.br\n")
    source = SeedSource("l.txt")
    assert rest_of(source) == ["http://a.br/", "http://b.br/"]
    assert (source.bad, len(source.bad_examples)) == (50, 10)
    assert source.bad_examples[1] == "l.txt:3: not a URL: 'bad line 1'"


def test_a_gigantic_line_is_one_line_and_shown_short() -> None:
    write("l.txt", b"y" * (5 * MAX_LINE) + b"\nz z\n")
    source = SeedSource("l.txt")
    assert list(source.batches()) == []
    assert [len(example) < 100 for example in source.bad_examples] == [True, True]
    assert source.bad_examples[1] == "l.txt:2: not a URL: 'z z'"


def test_gzip_is_detected_by_its_first_bytes() -> None:
    write("l.txt", gzip.compress(b"a.br\n"))
    write("m.gz", gzip.compress(b"b.br\n") + gzip.compress(b"c.br\n"))
    assert urls("l.txt,m.gz") == ["http://a.br/", "http://b.br/", "http://c.br/"]


@each_of("cut", [-9, -1])
def test_a_cut_gzip_file_is_read_as_far_as_it_goes(cut: int) -> None:
    lines = Random(0).randbytes(40_000).hex("\n", 8).replace("\n", ".br\n")
    write("l.gz", gzip.compress(lines.encode())[:cut])
    source = SeedSource("l.gz")
    assert len(rest_of(source)) > 1000
    assert source.bad_examples[-1].startswith("l.gz:")
    assert "cannot be read further" in source.bad_examples[-1]


def test_check_keeps_the_lines_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"#\nbad line\na.br\nb.br\n")
    os.close(write_end)
    with os.fdopen(read_end) as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        source = SeedSource("-")
        source.check()
        source.check()
    assert source.bad == 1
    assert list(source.batches()) == [["http://a.br/"], ["http://b.br/"]]
    assert source.opened == []
    assert source.bad_examples == ["standard input:2: not a URL: 'bad line'"]


def test_check_reads_no_further_than_the_first_usable_line() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"a.br\nb")
    source = SeedSource(f"/dev/fd/{read_end}")
    source.check()  # would block if it read the second line
    os.write(write_end, b".br\n")
    os.close(write_end)
    assert list(source.batches()) == [["http://a.br/"], ["http://b.br/"]]
    os.close(read_end)


def test_a_running_crawl_waits_for_no_pipe_and_no_device() -> None:
    os.mkfifo("pipe")
    with pytest.raises(BadSeed, match="/dev/zero is a device: give a file"):
        SeedSource("a.br,/dev/zero", while_running=True)
    with pytest.raises(BadSeed, match="pipe is a pipe: give a file"):
        SeedSource("pipe", while_running=True)


def test_batches_grow_up_to_their_size() -> None:
    write("l.txt", "".join(f"h{n}.br\n" for n in range(25)))
    assert [len(batch) for batch in SeedSource("l.txt").batches(10)] == [1, 2, 4, 8, 10]


def test_memory_stays_within_one_batch() -> None:
    line = "http://site{}.example/some/page\n"
    write("l.txt", "".join(line.format(n) for n in range(20_000)))
    tracemalloc.start()
    try:
        for _ in SeedSource("l.txt").batches(100):
            pass
        assert tracemalloc.get_traced_memory()[1] < 250_000  # the file is 0.7 MB
    finally:
        tracemalloc.stop()


def test_opened_gives_name_and_size_of_files_only() -> None:
    write("l.txt", "a.br\n")
    write("sub/m.txt", "bb.br\n")
    source = SeedSource("l.txt,ufmg.br,http://h/,sub/m.txt")
    assert source.opened == [("l.txt", 5), ("sub/m.txt", 6)]


def test_a_file_is_searched_here_then_in_the_project(tmp_path: Path) -> None:
    root = tmp_path / "project"
    write("project/seeds/br.txt", "project.br\n")
    write("project/list.txt", "list.br\n")
    assert urls("br.txt", root) == urls("seeds/br.txt", root) == ["http://project.br/"]
    assert urls("list.txt", root) == ["http://list.br/"]
    write("seeds/br.txt", "here.br\n")
    assert urls("seeds/br.txt", root) == ["http://here.br/"]


@pytest.mark.parametrize("spec", ["br.txt", "seeds/br.txt"])
def test_lists_packed_in_an_egg_are_found(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    egg = tmp_path / "project.egg"
    with zipfile.ZipFile(egg, "w") as archive:
        archive.writestr("webcrawl/seeds/br.txt", "packed.br\n")
    monkeypatch.setattr(
        "webcrawl.spiders.seeds.resources.files", lambda _: zipfile.Path(egg) / "webcrawl/"
    )
    source = SeedSource(spec)
    assert source.opened == [(spec, 10)]
    assert rest_of(source) == ["http://packed.br/"]
    with pytest.raises(BadSeed, match=r"did you mean seeds/br.txt"):
        SeedSource("seeds/br.tx")


@each_of("name", ["br.txt", "world.txt"])
def test_the_lists_of_the_project_have_no_bad_line(name: str) -> None:
    source = SeedSource(name, ROOT)
    found = rest_of(source)
    assert source.bad == 0
    assert len(found) == len(set(found)) > 10


def test_seeds_are_described_for_the_archive() -> None:
    write("short.txt", "http://me:pw@a.test/x\n# none\nnot a url\nb.test\n")
    write("long.txt", "http://a.test/\n" * 5_000)
    Path("packed.txt").write_bytes(gzip.compress(b"http://a.test/\n" * 5_000))
    source = SeedSource("http://me:pw@c.test/,short.txt,long.txt,packed.txt,-")
    url, short, long, packed, pipe = source.described()
    assert (url, pipe) == ({"url": "http://c.test/"}, {"list": "standard input"})
    assert short["urls"] == ["http://a.test/x", "http://b.test/"]
    assert long.keys() == packed.keys() == {"list", "size_bytes", "sha256"}
    assert long["size_bytes"] == 75_000
    assert source.bad == 0
    assert "pw" not in str(source.described())


def test_the_list_br_has_only_brazilian_hosts() -> None:
    found = urls("br.txt", ROOT)
    assert [url for url in found if ".br/" not in url and "br.yahoo.com" not in url] == []
