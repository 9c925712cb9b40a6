"""Users' Requests as payloads of links."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.utils.test import get_crawler

from tests.cases import each_of
from webcrawl.crawl.user_requests import UserRequests, is_of_the_web, is_plain
from webcrawl.frontier.lease import Link
from webcrawl.frontier.store import StoreError

URL = "http://a.example/"


def own(retry_times: int = 2, *, are_plain: bool = False) -> UserRequests:
    crawler = get_crawler()
    crawler.spider = Spider(name="users")
    crawler._apply_settings()
    return UserRequests(crawler, retry_times, keep=False, are_plain=are_plain)


def test_a_request_comes_back_as_it_went() -> None:
    requests = own()
    request = Request(URL, method="POST", body=b"x", meta={"depth": 3}, cb_kwargs={"k": "v"})
    link = requests.link(request, URL)
    assert (link.url, link.host, link.depth, link.retries) == (URL, "a.example", 3, 0)
    back = requests.request(link)
    assert (back.method, back.body, back.meta, back.cb_kwargs) == (
        "POST", b"x", {"depth": 3}, {"k": "v"},
    )  # fmt: skip


def test_one_that_does_not_serialise_is_kept_and_comes_back_unchanged_after_a_failure() -> None:
    requests = own()
    request = Request(URL, callback=lambda response: None)
    link = requests.link(request, URL)
    first = requests.request(link)
    first.meta["mine"], first.errback = "of the first try", print
    second = requests.request(link)
    assert second.callback is request.callback
    assert (second.meta, second.errback) == ({}, None)
    requests.ended(link)
    with pytest.raises(pickle.UnpicklingError):  # it is let go
        requests.request(link)


def test_one_that_an_earlier_run_kept_is_not_taken_for_one_of_this_run() -> None:
    left_in_line = own().link(Request(URL, callback=lambda response: None), URL)
    other = "http://b.example/"
    requests = own()
    requests.link(Request(other, callback=lambda response: None), other)
    assert not requests.keeps(left_in_line)
    with pytest.raises(pickle.UnpicklingError):
        requests.request(left_in_line)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('code has run')",)


@each_of(
    "payload",
    [
        pickle.dumps({"url": URL, "meta": {"x": Bomb()}}),
        pickle.dumps({"url": URL, "_class": "this.Thing"}),  # an import that prints
        pickle.dumps({"url": URL, "_class": "subprocess.Popen"}),
        pickle.dumps({"url": URL, "_type": "subprocess.Popen"}),  # another Scrapy's key of a class
        pickle.dumps([URL]),
        b"kept 1 of another hub",
    ],
)
def test_a_hub_of_several_runs_no_code_of_a_request_that_came_with_its_folder(
    payload: bytes,
) -> None:
    with pytest.raises(StoreError):
        own(are_plain=True).request(Link(URL, "a.example", payload=payload))


def test_a_hub_of_several_keeps_requests_with_other_than_plain_values_in_memory() -> None:
    requests = own(are_plain=True)
    form = FormRequest(URL, formdata={"a": "b"}, meta={"depth": 1, "k": [1, "x", None]})
    link = requests.link(form, URL)
    assert not requests.keeps(link)
    back = requests.request(link)
    assert (type(back), back.body, back.meta) == (FormRequest, b"a=b", form.meta)
    assert requests.keeps(requests.link(Request(URL, meta={"x": Bomb()}), URL))


@each_of(
    ("meta", "retries"),
    [
        ({}, 0),
        ({"retry_times": 1}, 1),
        ({"retry_times": 2}, 2),
        ({"dont_retry": True}, 2),
        ({"max_retry_times": 1}, 1),
        ({"max_retry_times": 1, "retry_times": 1}, 2),
        ({"max_retry_times": 9}, 0),
    ],
)
def test_tries_are_counted_with_those_of_the_retry_middleware(
    meta: dict[str, Any], retries: int
) -> None:
    assert own().link(Request(URL, meta=meta), URL).retries == retries


def test_what_its_url_does_not_tell_is_told_by_its_fingerprint() -> None:
    requests = own()
    bodies = [requests.is_seen(Request(URL, method="POST", body=body)) for body in ("1", "2", "1")]
    assert bodies == [False, False, True]
    assert not requests.is_seen(Request(URL, method="POST", body="1", dont_filter=True))


def test_kinds_of_requests() -> None:
    assert is_plain(Request(URL))
    assert not is_plain(Request(URL, method="POST"))
    assert not is_plain(Request(URL, body=b"x"))
    assert is_of_the_web(Request("HTTPS://a.example/"))
    assert not is_of_the_web(Request("data:,x"))


def test_what_is_put_aside_comes_in_its_order() -> None:
    requests = own()
    assert requests.take_aside() is None
    for url in ("data:,1", "data:,2"):
        requests.put_aside(Request(url))
    assert len(requests) == 2
    taken = (requests.take_aside(), requests.take_aside())
    assert [request.url for request in taken if request] == ["data:,1", "data:,2"]
