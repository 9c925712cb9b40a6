"""Who may ask the live page, and where its token is kept. Whole requests: tests/crawl."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import each_of
from webcrawl.live.access import TOKEN_FILE, Access, token_of

ACCESS = Access(8000, "t" * 43)
GOOD = {"host": ["127.0.0.1:8000"], "authorization": [f"Bearer {ACCESS.token}"]}


def refusal(method: str = "GET", *, needs_token: bool = True, **headers: list[str]) -> str:
    given = GOOD | headers
    return ACCESS.refuses(method, lambda name: given.get(name, []), needs_token=needs_token)


def test_a_request_with_the_token_is_answered() -> None:
    assert refusal() == ""
    assert refusal(authorization=["Basic eDp5", f"bearer  {ACCESS.token}"]) == ""
    assert refusal("POST", origin=["http://127.0.0.1:8000"]) == ""
    assert refusal(host=["LOCALHOST:8000"], origin=["http://localhost:8000"]) == ""


@each_of(
    "headers",
    [
        {"authorization": []},
        {"authorization": [f"Basic {ACCESS.token}"]},
        {"authorization": ["Bearer é" * 10]},
        {"authorization": [f"Bearer {ACCESS.token}x"]},
        {"authorization": [], "cookie": [f"token={ACCESS.token}"]},
    ],
)
def test_without_the_token_a_request_is_refused(headers: dict[str, list[str]]) -> None:
    assert "token" in refusal(**headers)


def test_the_page_needs_no_token_but_our_host() -> None:
    assert refusal(needs_token=False, authorization=[]) == ""
    assert "Host" in refusal(needs_token=False, host=["evil.example:8000"])
    assert "Origin" in refusal(needs_token=False, origin=["http://127.0.0.1:8001"])


def test_later_runs_have_the_token_of_the_first(tmp_path: Path) -> None:
    first = token_of(tmp_path)
    assert len(first) == 43
    assert token_of(tmp_path) == first
    assert token_of(None) != token_of(None)
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN_FILE]


@pytest.mark.parametrize(
    ("text", "mode"),
    [("t" * 43, 0o644), ("t" * 43, 0o620), ("short", 0o600), ("", 0o600), ("é" * 43, 0o600)],
)
def test_a_token_that_others_may_know_is_replaced(tmp_path: Path, text: str, mode: int) -> None:
    path = tmp_path / TOKEN_FILE
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    token = token_of(tmp_path)
    assert token != text
    assert path.read_text() == f"{token}\n"
    assert path.stat().st_mode & 0o777 == 0o600
