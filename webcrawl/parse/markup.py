"""HTML tags and attributes, straight from the bytes.

Owns the tokenisation of HTML (WHATWG HTML, 13.2.5), as far as needed to find the tags of interest.
Knows nothing of their meaning. Builds no tree: a tree's cost is quadratic in the nesting or in the
attributes of one tag, so a hostile page would block the crawl for seconds. Here every byte of any
page is read a bounded number of times, in constant memory: repeats are possessive (`*+`).

The bytes must be in an encoding in which ASCII bytes mean ASCII characters: all of the Encoding
Standard except UTF-16 and ISO-2022-JP.

CPython before 3.11.5 continues at a wrong position if an iteration of a possessive group fails
behind a lookahead (gh-106052). `_STOP` as the last alternative of such a group avoids that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

_RAW_TEXT = ("iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp")
_OPENING = (
    *("a", "area", "base", "embed", "frame", "link", "meta", "math", "object", "plaintext", "svg"),
    "template",
)
_CLOSING = ("/math", "/svg", "/template")
_SHOWN = (  # elements that may name a file which the page shows (`requisites`)
    *("audio", "embed", "image", "img", "input", "link", "object", "source", "track", "use"),
    *("video", "math", "plaintext", "svg", "template"),
)

_BLANK = r"\t\n\f\r "
_STOP = "(?!)"  # never matches
_TAG_NAME_END = rf"(?=[{_BLANK}/>])"
_EQUALS = rf"[{_BLANK}]*+=[{_BLANK}]*+"
_ATTRIBUTE_NAME = rf"[^{_BLANK}/>][^{_BLANK}/>=]*+"
# An unclosed quote extends to the end of the page. The empty alternative is `a=>`.
_VALUE = rf"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^{_BLANK}>"'][^{_BLANK}>]*+|)"""
_ATTRIBUTE = rf"{_ATTRIBUTE_NAME}(?:{_EQUALS}{_VALUE})?"
_ATTRIBUTES = rf"(?:[{_BLANK}/]++|{_ATTRIBUTE})*+"
_start = re.compile(rb"</?(?=[A-Za-z])")


def _any_of(names: Iterable[str], end: str) -> str:
    """Pattern of any of `names`, in any case, followed by `end`. A trie, so that it fails early."""
    tails: dict[str, list[str]] = {}
    for name in sorted(names):
        tails.setdefault(name[:1], []).append(name[1:])
    branches = [
        f"[{first.upper()}{first}]{_any_of(rest, end)}" if first else end
        for first, rest in tails.items()
    ]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


_OF_INTEREST = _any_of(_OPENING + _RAW_TEXT, _TAG_NAME_END)
_CLOSES_ONE = _any_of(_CLOSING, _TAG_NAME_END)
# `<div class="a" id="b">`, as nearly all tags are written. A name is certainly of no interest if no
# name of interest has its first, second or third letter in that place. Other patterns handle "a".
# embed and object are tested by themselves: with their letters too, "img" would be of interest.
_FIRST, _SECOND, _THIRD = (
    "".join(letters) + "".join(letters).upper()
    for letters in zip(
        *(name[:3] for name in _OPENING + _RAW_TEXT if name not in ("a", "embed", "object")),
        strict=True,
    )
)
_USUAL_NAME = (
    rf"(?:(?![{_FIRST}][{_SECOND}][{_THIRD}])[B-DF-NP-Zb-df-np-z]|[EeOo](?![BbMm][BbJj]))"
    r"[A-Za-z0-9]*+"
)
_USUAL_VALUE = r"""[a-z0-9-]*+="[^"]*+\""""
_USUAL_TAG = rf"{_USUAL_NAME}(?:>|(?:[{_BLANK}]++[a-z]{_USUAL_VALUE}|{_STOP})*+>)"
# `<a class="b" href="c">`, as nearly all links are written. Without rel, which may be nofollow.
_USUAL_LINK = (
    rf"<a(?:[{_BLANK}]++[a-gi-qs-z]{_USUAL_VALUE}|{_STOP})*+"
    rf"""[{_BLANK}]++href="([^"]*+)"(?:[{_BLANK}]++[a-qs-z]{_USUAL_VALUE}|{_STOP})*+>"""
)
_ANY_TAG = rf"/?[A-Za-z][^{_BLANK}/>]*+{_ATTRIBUTES}>?"
_COMMENT = rf"!--(?:-?>|[^-]*+(?:(?!--!?>)-[^-]*+|{_STOP})*+(?:--!?>|\Z))"
_BOGUS_COMMENT = r"[!?/][^>]*+>?"
# Markup of no interest at a "<", the most usual first. The last alternative is a bare "<".
_OTHER = (
    rf"""</(?![MmSsTt][AaVvEe])[^>"']*+>"""
    rf"|<(?![Aa][{_BLANK}])(?:{_USUAL_TAG}"
    rf"|(?!{_OF_INTEREST}|{_CLOSES_ONE})(?:{_ANY_TAG}|{_COMMENT}|{_BOGUS_COMMENT}|))"
)
# A match ends at a tag of interest, or after so many other tags: it holds the GIL until it ends.
_OTHERS_AT_A_TIME = 20_000
_HREF = 1  # the group of the usual link
_tag = re.compile(
    rf"[^<]*+(?:(?:{_OTHER}|{_STOP})[^<]*+){{0,{_OTHERS_AT_A_TIME}}}+"
    rf"(?:{_USUAL_LINK}|<(/?[A-Za-z]++)({_ATTRIBUTES})>)?".encode()
)
# As `_tag`, for elements of _SHOWN, and all with one of these attributes.
_NAMES_FILES = _any_of(("style", "background"), rf"(?=[{_BLANK}/>=]|\Z)")
_NO_FILE = rf"(?:[{_BLANK}/]++|(?!{_NAMES_FILES}){_ATTRIBUTE}|{_STOP})*+"
_OTHER_SHOWN = (
    rf"""</(?![MmSsTt][AaVvEe])[^>"']*+>"""
    rf"|<(?!{_any_of(_SHOWN + _RAW_TEXT, _TAG_NAME_END)}|{_CLOSES_ONE})"
    rf"(?:[A-Za-z][^{_BLANK}/>]*+{_NO_FILE}>|{_COMMENT}|{_BOGUS_COMMENT}|(?![A-Za-z]))"
)
_shown_tag = re.compile(
    rf"[^<]*+(?:(?:{_OTHER_SHOWN}|{_STOP})[^<]*+){{0,{_OTHERS_AT_A_TIME}}}+"
    rf"(?:{_STOP}()|<(/?[A-Za-z]++)({_ATTRIBUTES})>)?".encode()
)
_text_end = {
    name.encode(): re.compile(f"</{_any_of((name,), _TAG_NAME_END)}".encode()).search
    for name in _RAW_TEXT
}
_script_mark = re.compile(f"<!--|-->|<(/?){_any_of(('script',), _TAG_NAME_END)}".encode()).search

_QUOTED_OR_NOT = rf"""(?:"([^"]*+)"?|'([^']*+)'?|([^{_BLANK}>"'][^{_BLANK}>]*+)|)"""
_each_attribute = re.compile(
    rf"({_ATTRIBUTE_NAME})(?:{_EQUALS}{_QUOTED_OR_NOT})?".encode()
).finditer


Scan = Callable[[bytes, int], tuple[list[bytes], bytes, bytes, int]]


def scan_by_regex(
    payload: bytes, at: int, tag: re.Pattern[bytes] = _tag
) -> tuple[list[bytes], bytes, bytes, int]:
    """The hrefs of the usual links from `at` on, then the first other tag of interest: its name
    (lower case), its attributes, and its end.

    The name is b"" at the end of the page; an unclosed tag counts as the end. In C the name is also
    b"" after many tags, since the scanner holds the GIL. O(size): 4 to 8 µs per KB, in C 0.6.
    """
    hrefs = []
    for match in tag.finditer(payload, at):
        if match.lastindex == _HREF:
            hrefs.append(match[_HREF])
        elif match.lastindex:
            return hrefs, match[2].lower(), match[3], match.end()
        elif match.end() == match.start():
            break
    return hrefs, b"", b"", len(payload)


def scan_shown(payload: bytes, at: int) -> tuple[list[bytes], bytes, bytes, int]:
    """As `scan_by_regex`, without hrefs: the first tag from `at` on that may name a file which the
    page shows.
    """
    return scan_by_regex(payload, at, _shown_tag)


def crowded_by_regex(payload: bytes, most: int, again: int) -> list[int]:
    """The places of tags with more than `most` attributes.

    Each "<" and letter is taken for a tag, also in comments, scripts and values: only a parser
    knows which of them are tags. After `again` times the size was read, as tags begin within tags,
    all others count as crowded. O(size): 20 µs per kB of a usual page, in C 1.
    """
    tag = re.compile(
        rf"[^{_BLANK}/>]++(?:[{_BLANK}/]*+{_ATTRIBUTE}){{0,{most}}}+[{_BLANK}/]*+".encode()
    )
    places = []
    left = again * len(payload)
    for start in _start.finditer(payload):
        end = start.end()
        if left >= 0 and (found := tag.match(payload, end)):
            end = found.end()
        left -= end - start.start()
        if left < 0 or payload[end : end + 1] not in (b">", b""):
            places.append(start.start())
    return places


try:
    from webcrawl_scan import scan
except ImportError:  # the C module was not built: no compiler
    scan = scan_by_regex


def tags(
    payload: bytes,
    *,
    xml: bool = False,
    scanner: Scan = scan,
    texts: tuple[bytes, ...] = (b"title",),
) -> Iterator[tuple[list[bytes], bytes, bytes]]:
    """Each tag of interest in document order: the hrefs of the usual links since the tag before,
    then its name (lower case) and attributes; of `texts` the text in their place. The last item,
    without a name, is the end of the page.

    Skips comments, scripts and other raw text, and templates, which are not part of the page (HTML,
    4.12.3). `xml`: `<title/>` has no content. O(size).
    """
    hrefs: list[bytes] = []
    templates = foreign = at = 0
    end = len(payload)
    while at < end:
        found, name, attributes, at = scanner(payload, at)
        if not templates:
            hrefs += found
        if not name:
            continue
        if name in _text_end:
            # 13.2.6.5: only XML, SVG and MathML have self-closing elements; the title of SVG holds
            # HTML. Deviation: scripts and styles of SVG are read as those of HTML, since "</svg>"
            # may be missing.
            closed = attributes.endswith(b"/") and (xml or foreign)
            start = at
            if not closed and not (foreign and name == b"title"):
                at = _end_of_text(payload, at, name)
            if name in texts:
                attributes = payload[start:at]
        elif name == b"template":
            templates += not foreign and b"shadowrootmode" not in attributes.lower()
        elif name == b"/template":
            templates = max(0, templates - 1)
        elif name in (b"svg", b"math"):
            foreign += not attributes.endswith(b"/")
        elif name in (b"/svg", b"/math"):
            foreign = max(0, foreign - 1)
        elif name == b"plaintext":
            break
        if not templates:
            yield hrefs, name, attributes
            hrefs = []
    yield hrefs, b"", b""


def metas(payload: bytes) -> Iterator[bytes]:
    """Attributes of each `<meta>` that the prescan for a character set sees (13.2.3.2): also in
    scripts, not in comments. O(size).
    """
    at, end = 0, len(payload)
    while at < end:
        _, name, attributes, at = scan(payload, at)
        if name == b"meta":
            yield attributes


def _end_of_text(payload: bytes, at: int, name: bytes) -> int:
    """The end of the text of the raw text element whose start tag ends at `at`."""
    end = _text_end[name](payload, at)
    if end is None:
        return len(payload)
    if name == b"script" and payload.find(b"<!--", at, end.start()) >= 0:
        return _end_of_script(payload, at)
    return end.start()


def _end_of_script(payload: bytes, at: int) -> int:
    """As `_end_of_text`, for a script with a comment (HTML, 13.2.5.20 to 13.2.5.31)."""
    escaped = double_escaped = False
    while mark := _script_mark(payload, at):
        at = mark.end()
        if mark[0] == b"<!--":
            escaped = True
            at -= 2  # "<!-->" is a whole comment
        elif mark[0] == b"-->":
            escaped = double_escaped = False
        elif not mark[1]:
            double_escaped = escaped
        elif double_escaped:
            double_escaped = False
        else:
            return mark.start()
    return len(payload)


def attributes_of(attributes: bytes) -> dict[bytes, bytes]:
    """Names (lower case) and raw values of a tag's attributes. The first of a name counts."""
    values: dict[bytes, bytes] = {}
    for name, *value in map(re.Match.groups, _each_attribute(attributes)):
        name = name.lower()
        if name not in values:
            values[name] = value[0] or value[1] or value[2] or b""
    return values


def value_finder(name: str) -> Callable[[bytes], re.Match[bytes] | None]:
    """A function that finds the attribute `name` in a tag's attributes.

    The last group of its match is the value. None, or a match without a last group, if there is no
    such attribute, or if it has no value.
    """
    wanted = _any_of((name,), rf"(?=[{_BLANK}/>=]|\Z)")
    others = rf"(?:[{_BLANK}/]++|(?!{wanted}){_ATTRIBUTE}|{_STOP})*+"
    return re.compile(f"{others}{wanted}{_EQUALS}{_QUOTED_OR_NOT}".encode()).match
