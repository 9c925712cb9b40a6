"""The Retry-After header (RFC 9110, 10.2.3)."""

from __future__ import annotations

from email.utils import parsedate_to_datetime


def retry_after_s(value: bytes, now_time: float) -> float:
    """Seconds to wait from `now_time` (UTC, seconds); 0.0 for nothing or nonsense."""
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_time)
    except (ValueError, OverflowError):
        return 0.0
