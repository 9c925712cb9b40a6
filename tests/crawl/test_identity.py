"""A whole crawl that says who it is: judged by the servers' journal and another implementation."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from http_message_signatures import HTTPMessageVerifier, algorithms

from tests.crawl.crawling import Crawl, assert_clean, assert_faultless
from tests.crawl.knownsite import records
from tests.crawl.test_processes import few
from tests.forked import running
from tests.unit.test_signing import Keys
from webcrawl.tools.botpage.keys import new_key

pytestmark = pytest.mark.slow

WORLD = (
    *("--seed", "23", "--hosts", "6", "--seeds", "6", "--pages-per-host", "5"),
    *("--features", "none,origin-https=6,origin-moved,robots-moved,robots-elsewhere,page-flaky"),
)
AGENT = "https://example.org/.well-known/http-message-signatures-directory"
SECRET = "a-secret-word"


def fields_of(request: dict[str, Any]) -> dict[str, str]:
    lines = request["fields"].split("\r\n")
    return dict(line.split(": ", 1) for line in lines if line)


def test_each_request_is_signed_and_a_login_goes_to_its_host_and_scheme_only(
    tmp_path: Path,
) -> None:
    key = new_key(tmp_path / "key.pem")
    verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=Keys(key))
    journal = tmp_path / "journal"
    with running(*WORLD, "--host-delay", "0.1", "--journal", str(journal)) as web:
        hosts = [seed.split("/")[2].rpartition(":")[0] for seed in web.seeds]
        rules = [
            f'[[rule]]\nhost = "{host}"\nauth = {{ user = "me", password = "{SECRET}" }}\n'
            for host in hosts[:-1]
        ]
        rules.append(f'[[rule]]\nhost = "{hosts[-1]}"\nheaders = {{ Cookie = "id={SECRET}" }}\n')
        (tmp_path / "rules.toml").write_text("".join(rules))
        result = Crawl(
            tmp_path / "crawl",
            web=web,
            BOT_AUTH_KEY=tmp_path / "key.pem",
            BOT_AUTH_AGENT=AGENT,
            FROM="crawl@example.org",
            RULES=f"@{tmp_path / 'rules.toml'}",
            JOBDIR=tmp_path / "crawl" / "job",
            **few(2),
        ).wait()
        assert_clean(result)
        assert_faultless(web)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    requests = [each for each in lines if "target" in each]
    nonces = set()
    logins = {True: 0, False: 0}
    for each in requests:
        fields = fields_of(each)
        secure = fields["Host"].endswith(f":{web.https}")
        url = f"{'https' if secure else 'http'}://{fields['Host']}{each['target']}"
        message = SimpleNamespace(method=each["method"], url=url, headers=fields)
        [verified] = verifier.verify(message, max_age=timedelta(hours=1))
        nonces.add(verified.parameters["nonce"])
        assert fields["Signature-Agent"] == 'sig1="https://example.org"'
        assert fields["From"] == "crawl@example.org"
        assert ("Authorization" in fields) == (secure and each["host"] in hosts[:-1])
        assert ("Cookie" in fields) == (each["host"] == hosts[-1])
        logins["Authorization" in fields] += 1
    assert len(nonces) == len(requests), "each request is signed anew"
    assert all(logins.values())
    assert any(each["target"].endswith("/robots.txt") for each in requests)
    pem = (tmp_path / "key.pem").read_bytes()
    assert_the_secrets_are_nowhere(result.folder, SECRET.encode(), pem.splitlines()[1])
    blocks = [each for path in result.warcs for each in records(path)]
    assert any(b"requestHeadersOmitted: authorization" in each.block for each in blocks)
    signed = [b"\r\nSignature: sig1=:" in each.block for each in blocks if each.type == "request"]
    assert signed
    assert all(signed)


def assert_the_secrets_are_nowhere(folder: Path, *secrets: bytes, besides: str = "") -> None:
    """In no log, record, report or file of the frontier. `besides`: a file that has them."""
    for file in folder.rglob("*"):
        if file.is_file() and file.name != besides:
            data = file.read_bytes()
            if file.suffix == ".gz":
                data = gzip.decompress(data)
            for secret in secrets:
                assert secret not in data, file
