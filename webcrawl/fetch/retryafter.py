"""The Retry-After header (RFC 9110, 10.2.3)."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from webcrawl.fetch.exchange import Exchange


def asked_to_wait_s(exchange: Exchange) -> float:
    """Seconds that the answer asks us to wait; 0.0 without a usable Retry-After."""
    return retry_after_s(exchange.header(b"retry-after"), exchange.started_time)


def retry_after_s(value: bytes, now_time: float) -> float:
    """Seconds to wait from `now_time` (UTC, seconds); 0.0 for an empty or invalid value."""
    if not value:
        return 0.0
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_time)
    except (ValueError, OverflowError):
        return 0.0
