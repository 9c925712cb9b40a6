"""The language of texts: pages that were read and labelled, mixtures, and what is no language."""

from __future__ import annotations

import random

import pytest

from tests.unit.corpus_pages import pages
from webcrawl.tools.corpus.language import _ISO_639_3, WINDOWS, Language, _detector, detect

PT = "O veloz cachorro marrom salta sobre a cerca e corre pela floresta até chegar ao rio. "
EN = "The quick brown dog jumps over the fence and runs through the forest to the river. "


def test_labelled_pages() -> None:
    """The table of the module's docstring has the numbers, and those of other ways."""
    labelled = pages("labelled_pages")
    assert len(labelled) >= 100
    found = [detect(page["text"]) for page in labelled]
    wrong = [
        (page["locale"], page["page"], language.code)
        for page, language in zip(labelled, found, strict=True)
        if language.code not in page["languages"]
    ]
    assert len(wrong) <= 1
    assert [each for each in wrong if each[0] == "pt-BR"] == []
    errors = [
        abs(1 - dict(language.shares).get("eng", 0.0) - page["share"])
        for page, language in zip(labelled, found, strict=True)
        if page["locale"] != "en-US"
    ]
    assert sum(errors) / len(errors) < 0.08


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(PT * 40, "por", id="one language"),
        pytest.param(PT, "por", id="one sentence"),
        pytest.param(EN + PT * 40, "por", id="an English header"),
        pytest.param("Início Sobre " + EN * 40, "eng", id="a translated header"),
        pytest.param(EN * 30_000 + PT * 20_000, "eng", id="4 MB"),
        pytest.param(
            "今天天气很好，我们一起去公园散步，然后回家。" * 9, "zho", id="a macrolanguage"
        ),
    ],
)
def test_the_larger_part_counts(text: str, code: str) -> None:
    assert detect(text).code == code


def test_shares() -> None:
    language = detect(PT * 60 + EN * 20)
    assert [code for code, _ in language.shares] == ["por", "eng"]
    assert dict(language.shares) == pytest.approx({"por": 0.75, "eng": 0.25}, abs=1 / WINDOWS)
    assert 0.5 < language.score <= 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(" \n\t\x00 ", id="blank"),
        pytest.param("... --- *** !!! 12 34 2026-11-27 " * 20, id="no letters"),
        pytest.param(random.Random(1).randbytes(999).hex(), id="hexadecimal digits"),
        pytest.param("drwxr-xr-x root/root 4096 usr/lib\n" * 30, id="a directory"),
        pytest.param("😀👍 " * 200, id="emoji"),
    ],
)
def test_no_language(text: str) -> None:
    assert detect(text) == Language("und", 0.0, ())


def test_all_codes_are_iso_639_3() -> None:
    labels = {
        each["lang"] for text in (PT, EN, "你好", "") for each in _detector.detect(text, k=200)
    }
    assert len(labels) >= 170
    assert {label for label in labels if len(_ISO_639_3.get(label, label)) != 3} == set()
