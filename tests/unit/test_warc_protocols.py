"""The names of cipher suites, compared with OpenSSL's own list of both names."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from webcrawl.fetch.exchange import Tls
from webcrawl.fetch.tls import client_context
from webcrawl.warc.protocols import protocol_fields, suite_name

WITH_A_SHARED_KEY = ("PSK-", "SRP-", "RSA-PSK-", "DHE-PSK-", "ECDHE-PSK-")


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_suites_have_the_names_of_iana() -> None:
    lines = subprocess.check_output(["openssl", "ciphers", "-stdname", "ALL@SECLEVEL=0"], text=True)
    names = {line.split()[2]: line.split()[0] for line in lines.splitlines()}
    offered = [each["name"] for each in client_context().get_ciphers()]
    usual = [name for name in offered if not name.startswith(WITH_A_SHARED_KEY)]
    assert len(usual) > 20
    assert {name: suite_name(name) for name in usual} == {name: names[name] for name in usual}
    assert {suite_name(name) for name in set(offered) - {*usual}} <= {""}


def test_each_layer_has_a_field() -> None:
    assert protocol_fields("1.0", None) == (("WARC-Protocol", "http/1.0"),)
    tls = Tls("TLSv1.2", "ECDHE-RSA-AES128-GCM-SHA256", "00")
    assert protocol_fields("1.1", tls) == (
        ("WARC-Protocol", "http/1.1"),
        ("WARC-Protocol", "tls/1.2"),
        ("WARC-Cipher-Suite", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    )
    assert protocol_fields("1.1", Tls("SSLv3", "RC4-MD5", "00")) == protocol_fields("1.1", None)
