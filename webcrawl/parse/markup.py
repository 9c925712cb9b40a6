"""HTML tags and attributes, straight from the bytes.

Owns the tokenisation of HTML (WHATWG HTML, 13.2.5) as far as it takes to find the tags of interest;
what they mean is for others. No tree is built: its cost is quadratic in the nesting or in the
attributes of one tag, and a hostile page would hold the crawl for seconds. Here every byte is read
a bounded number of times whatever the page, in constant memory: repeats are possessive (`*+`).

The bytes must be of an encoding in which ASCII bytes mean ASCII characters: all of the Encoding
Standard save UTF-16 and ISO-2022-JP.

CPython before 3.11.5 goes on from a wrong place where an iteration of a possessive group fails
behind a lookahead (gh-106052). `_STOP` as the last alternative of such a group sets that right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

_RAW_TEXT = ("iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp")
_OPENING = ("a", "area", "base", "frame", "link", "meta", "math", "plaintext", "svg", "template")
_CLOSING = ("/math", "/svg", "/template")

_BLANK = r"\t\n\f\r "
_STOP = "(?!)"  # never matches
_TAG_NAME_END = rf"(?=[{_BLANK}/>])"
_EQUALS = rf"[{_BLANK}]*+=[{_BLANK}]*+"
_ATTRIBUTE_NAME = rf"[^{_BLANK}/>][^{_BLANK}/>=]*+"
# A quote that is not closed reaches to the end of the page; the empty one is `a=>`.
_VALUE = rf"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^{_BLANK}>"'][^{_BLANK}>]*+|)"""
_ATTRIBUTE = rf"{_ATTRIBUTE_NAME}(?:{_EQUALS}{_VALUE})?"
_ATTRIBUTES = rf"(?:[{_BLANK}/]++|{_ATTRIBUTE})*+"


def _any_of(names: Iterable[str], end: str) -> str:
    """Pattern of any of `names` in any case, each followed by `end`: a trie, to fail early."""
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
# `<div class="a" id="b">`, as nearly all tags are written. A name is surely of no interest when one
# of its first three letters is nowhere in that place of a name that is. "a" is left to the others.
_FIRST, _SECOND, _THIRD = (
    "".join(letters) + "".join(letters).upper()
    for letters in zip(*(name[:3] for name in _OPENING + _RAW_TEXT if name != "a"), strict=True)
)
_USUAL_NAME = rf"(?![{_FIRST}][{_SECOND}][{_THIRD}])[B-Zb-z][A-Za-z0-9]*+"
_USUAL_VALUE = r"""[a-z0-9-]*+="[^"]*+\""""
_USUAL_TAG = rf"{_USUAL_NAME}(?:>|(?:[{_BLANK}]++[a-z]{_USUAL_VALUE}|{_STOP})*+>)"
# `<a class="b" href="c">`, as nearly all links are written; with no rel, which may say nofollow.
_USUAL_LINK = (
    rf"<a(?:[{_BLANK}]++[a-gi-qs-z]{_USUAL_VALUE}|{_STOP})*+"
    rf"""[{_BLANK}]++href="([^"]*+)"(?:[{_BLANK}]++[a-qs-z]{_USUAL_VALUE}|{_STOP})*+>"""
)
_ANY_TAG = rf"/?[A-Za-z][^{_BLANK}/>]*+{_ATTRIBUTES}>?"
_COMMENT = rf"!--(?:-?>|[^-]*+(?:(?!--!?>)-[^-]*+|{_STOP})*+(?:--!?>|\Z))"
_BOGUS_COMMENT = r"[!?/][^>]*+>?"
# All that is of no interest at a "<", the usual first; the last is a mere "<".
_OTHER = (
    rf"""</(?![MmSsTt][AaVvEe])[^>"']*+>"""
    rf"|<(?![Aa][{_BLANK}])(?:{_USUAL_TAG}"
    rf"|(?!{_OF_INTEREST}|{_CLOSES_ONE})(?:{_ANY_TAG}|{_COMMENT}|{_BOGUS_COMMENT}|))"
)
# Up to a tag of interest, or past so many others: a match holds the interpreter until it ends.
_OTHERS_AT_A_TIME = 20_000
_HREF = 1  # the group of the usual link
_tag = re.compile(
    rf"[^<]*+(?:(?:{_OTHER}|{_STOP})[^<]*+){{0,{_OTHERS_AT_A_TIME}}}+"
    rf"(?:{_USUAL_LINK}|<(/?[A-Za-z]++)({_ATTRIBUTES})>)?".encode()
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


def scan_by_regex(payload: bytes, at: int) -> tuple[list[bytes], bytes, bytes, int]:
    """The hrefs of the usual links from `at` on, then the first other tag of interest: its name
    (lower case), its attributes, and where it ends.

    No name at the end of the page, which a tag that is not closed is too; C has none after so many
    tags as well, since it holds the interpreter. O(size): 4 to 8 us a KB, in C 0.6.
    """
    hrefs = []
    for match in _tag.finditer(payload, at):
        if match.lastindex == _HREF:
            hrefs.append(match[_HREF])
        elif match.lastindex:
            return hrefs, match[2].lower(), match[3], match.end()
        elif match.end() == match.start():
            break
    return hrefs, b"", b"", len(payload)


try:
    from webcrawl_scan import scan
except ImportError:  # it is in C, and there was no compiler
    scan = scan_by_regex


def tags(payload: bytes, *, xml: bool = False) -> Iterator[tuple[list[bytes], bytes, bytes]]:
    """Each tag of interest in document order: the hrefs of the usual links since the one before,
    then its name (lower case) and attributes. The last has no name: it is the end.

    Nothing from comments, from scripts and other raw text, and from templates, which are no part of
    the page (HTML, 4.12.3). `xml`: `<title/>` has no content. O(size).
    """
    hrefs: list[bytes] = []
    templates = foreign = at = 0
    while at < len(payload):
        found, name, attributes, at = scan(payload, at)
        if not templates:
            hrefs += found
        if not name:
            continue
        if name in _text_end:
            # 13.2.6.5: only XML, SVG and MathML have elements that close themselves; SVG's title
            # holds HTML. Deviation: its scripts and styles are read as HTML's, "</svg>" may be missing.
            closed = attributes.endswith(b"/") and (xml or foreign)
            if not closed and not (foreign and name == b"title"):
                at = _end_of_text(payload, at, name)
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
    """Attributes of each `<meta>`, as the prescan for a character set sees them (13.2.3.2): not
    those in comments, but those in scripts. O(size).
    """
    at = 0
    while at < len(payload):
        _, name, attributes, at = scan(payload, at)
        if name == b"meta":
            yield attributes


def _end_of_text(payload: bytes, at: int, name: bytes) -> int:
    """Where the text of the raw text element ends that was opened before `at`."""
    end = _text_end[name](payload, at)
    if end is None:
        return len(payload)
    if name == b"script" and payload.find(b"<!--", at, end.start()) >= 0:
        return _end_of_script(payload, at)
    return end.start()


def _end_of_script(payload: bytes, at: int) -> int:
    """As `_end_of_text`, for a script with a comment in it (HTML, 13.2.5.20 to 13.2.5.31)."""
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
    """Names (lower case) and raw values of a tag's attributes; the first of a name counts."""
    values: dict[bytes, bytes] = {}
    for name, *value in map(re.Match.groups, _each_attribute(attributes)):
        values.setdefault(name.lower(), value[0] or value[1] or value[2] or b"")
    return values


def value_finder(name: str) -> Callable[[bytes], re.Match[bytes] | None]:
    """A function that matches up to the value of `name` in a tag's attributes.

    The value is the match's last group. None when there is no such attribute, or no value.
    """
    wanted = _any_of((name,), rf"(?=[{_BLANK}/>=]|\Z)")
    others = rf"(?:[{_BLANK}/]++|(?!{wanted}){_ATTRIBUTE}|{_STOP})*+"
    return re.compile(f"{others}{wanted}{_EQUALS}{_QUOTED_OR_NOT}".encode()).match
