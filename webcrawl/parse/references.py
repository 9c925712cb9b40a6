"""Character references in attribute values (WHATWG HTML, 13.2.5.72 to 13.2.5.80).

`html.unescape` has the rules for text. By these, `?a=1&copy=2` contains a copyright sign.
"""

from __future__ import annotations

import re
from html.entities import html5

_LARGEST = 0x10FFFF
# 13.2.5.80: the number of a C1 control means the character that windows-1252 has there, if any.
_C1 = {code: bytes((code,)).decode("windows-1252", "ignore") for code in range(0x80, 0xA0)}
_REFERENCE = re.compile(
    r"&(?:#[xX]([0-9A-Fa-f]+);?|#([0-9]+);?|([A-Za-z][0-9A-Za-z]*+(?:;|(?!=))))"
)


def unescape(value: str) -> str:
    """`value` of an attribute with its character references replaced. O(length)."""
    return _REFERENCE.sub(_character, value)


def _character(reference: re.Match[str]) -> str:
    hexadecimal, decimal, name = reference.groups()
    if name:
        return html5.get(name, reference[0])
    digits = (hexadecimal or decimal).lstrip("0")
    # int() is quadratic in the number of digits
    code = int(digits or "0", 16 if hexadecimal else 10) if len(digits) < 8 else _LARGEST + 1
    if code == 0 or 0xD800 <= code <= 0xDFFF or code > _LARGEST:
        return "\ufffd"
    return _C1.get(code) or chr(code)
