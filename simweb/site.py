"""The pages of one host: their paths, their behaviours and the tree that links them all."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from urllib.parse import unquote

from simweb.pagekinds import PageKind
from simweb.robots import Robots
from simweb.words import DIRECTORIES, WORDS

_ENDINGS = ("", "", "", "/", ".html")
_PAGE = re.compile(r"-(\d{1,9})(?:/|\.html)?$").search
_STEP = re.compile(r"de=(\d{1,9})&passo=(\d{1,7})$").match
_TRAIL = re.compile(r".*?-(\d{1,9})(?:\.html)?(/[^?]+)").fullmatch
_SESSION = re.compile(r";jsessionid=\w+|[?&]PHPSESSID=\w+", re.IGNORECASE)


class Tree:
    """A tree of the numbers 0, 1, 2 ... in which each parent is smaller and sound; 0 is sound.

    Parents are used in order, with at most `fanout` children each while there are enough parents.
    So the children of one parent are consecutive, and two arrays hold the whole tree.
    """

    __slots__ = ("_first", "_size", "sound")

    def __init__(self, flags: Iterable[bool], fanout: int) -> None:
        self.sound = array("I", [0])
        self._first = array("I", [1])  # of each sound number, its first child
        number = 0
        for number, flag in enumerate(flags):
            if number == 0:
                continue
            parent = min((number - 1) // fanout, len(self.sound) - 1)
            if parent == len(self._first):
                self._first.append(number)
            if flag:
                self.sound.append(number)
        self._size = number + 1

    def children(self, number: int) -> range:
        """O(log n); empty for a number that is not sound."""
        parent = bisect_left(self.sound, number)
        if parent >= len(self._first) or self.sound[parent] != number:
            return range(0)
        last = parent + 1 == len(self._first)
        return range(self._first[parent], self._size if last else self._first[parent + 1])


def path(salt: int, page: int) -> str:
    """The path of a page: 0 to 9 words. It has the page's number, so it is unique and resolves."""
    if page == 0:
        return "/"
    number = (salt ^ page) * 0x9E3779B97F4A7C15 >> 24 & 0xFFFFFF
    directory = DIRECTORIES[number & 2047]
    return f"{directory}{WORDS[number >> 11 & 63]}-{page}{_ENDINGS[(number >> 17) % 5]}"


class Site:
    """The pages of `host`. A mirror has the site of its original.

    The last `orphans` pages are outside the tree, and no page links to them.
    """

    def __init__(
        self, host: int, salt: int, kinds: Sequence[PageKind], robots: Robots, orphans: int = 0
    ) -> None:
        self.host = host
        self.kinds = kinds
        self.size = len(kinds) - orphans  # without orphans
        self.salt = salt
        self._robots = robots

    @cached_property
    def tree(self) -> Tree:
        """The tree of the pages. It is made on first use: hosts that serve no page need none."""
        rules = self._robots.rules
        flags = (
            kind.sound and (not rules or self._robots.allows(self.path(page)))
            for page, kind in enumerate(self.kinds[: self.size])
        )
        return Tree(flags, 4)

    def path(self, page: int) -> str:
        return path(self.salt, page)

    def query(self, page: int, step: int) -> str:
        return f"?de={page}&passo={step}" if step else ""

    def target(self, page: int, step: int) -> str:
        trail = self.kinds[page].trail
        if step and trail:
            return self.path(page).rstrip("/") + trail.write(step)
        return self.path(page) + self.query(page, step)

    def resolve(self, target: str) -> tuple[int, int] | None:
        """Page and step of a request target: the canonical spelling first, then any other."""
        return (
            self._resolve(target)
            or self._resolve_trail(target)
            or self._resolve(_canonical(target))
        )

    def _resolve_trail(self, target: str) -> tuple[int, int] | None:
        found = _TRAIL(target)
        page = int(found[1]) if found else self.size
        if not found or page >= self.size:
            return None
        trail = self.kinds[page].trail
        step = trail.read(found[2]) if trail else 0
        return (page, step) if step > 0 and self.target(page, step) == target else None

    def _resolve(self, target: str) -> tuple[int, int] | None:
        path, _, query = target.partition("?")
        page = step = 0
        if path != "/":
            number = _PAGE(path)
            page = int(number[1]) if number else len(self.kinds)
        if page >= len(self.kinds) or self.path(page) != path:
            return None
        if query:
            found = _STEP(query)
            if not found or int(found[1]) != page:
                return None
            step = int(found[2])
        return (page, step) if step <= self.kinds[page].steps else None


def _canonical(target: str) -> str:
    """Without session ids, dot segments and needless percent-encoding."""
    path, mark, query = _SESSION.sub("", target.partition("#")[0]).partition("?")
    words: list[str] = []
    for word in path.split("/")[1:]:
        if word == "..":
            del words[-1:]
        elif word != ".":
            words.append(_encoded(unquote(word)))
    return f"/{'/'.join(words)}{mark}{query}"


def _encoded(word: str) -> str:
    return "".join(c if c.isascii() else "".join(f"%{b:02X}" for b in c.encode()) for c in word)
