"""The language of texts and pages: those that were read and labelled, mixtures, and what is no
language. And the models of users.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

from tests.fasttextmodel import write_model
from tests.unit.corpus_pages import pages
from webcrawl.base.wording import SettingError
from webcrawl.config.languagemodel import codes_of
from webcrawl.parse.detection import WINDOWS, Detector, Language

PT = "O veloz cachorro marrom salta sobre a cerca e corre pela floresta até chegar ao rio. "
EN = "The quick brown dog jumps over the fence and runs through the forest to the river. "
detector = cache(Detector)  # half a second, in the one worker that runs these tests


def test_labelled_pages() -> None:
    """The table of the module's docstring has the numbers, and those of other ways."""
    labelled = pages("labelled_pages")
    assert len(labelled) >= 100
    found = [detector().detect(page["text"]) for page in labelled]
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
    assert detector().detect(text).code == code


def test_shares() -> None:
    language = detector().detect(PT * 60 + EN * 20)
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
        pytest.param(random.Random(6).randbytes(9999).decode("latin-1"), id="no text"),
    ],
)
def test_no_language(text: str) -> None:
    assert detector().detect(text) == Language("und", 0.0, ())


LOCALES = {"pt-BR": "por", "de-DE": "deu", "es-ES": "spa", "fr-FR": "fra", "it-IT": "ita"}
LOCALES |= {"en-US": "eng", "ru-RU": "rus"}


def test_pages_as_a_crawl_sees_them() -> None:
    """Those that are not right are translated by half at most."""
    found = {
        (page["locale"], page["page"]): detector().detect_page(page["html"].encode(), "utf-8")
        for page in pages("handbook_pages")
    }
    wrong = [each for each, code in found.items() if code != LOCALES[each[0]]]
    assert len(found) - len(wrong) >= 56
    assert {found[each] for each in wrong} == {"eng"}


PARAGRAPH = f"<p>{PT.replace('é', '&eacute;') * 9}"
MENU = "<nav><ul>" + "<li><a href=/>About this site</a> and more</li>" * 50 + "</ul></nav>"


@pytest.mark.parametrize(
    ("html", "code"),
    [
        pytest.param(MENU + PARAGRAPH, "por", id="an English menu"),
        pytest.param(
            "<script>the and of to in that is was</script>" * 99 + PARAGRAPH, "por", id="s"
        ),
        pytest.param("<li>O gato preto<li>A casa grande<li>Uma rua bonita" * 9, "por", id="a list"),
        pytest.param("<p>" + "今天天气很好，我们一起去公园散步。" * 40, "zho", id="no spaces"),
        pytest.param("<img src=x>" * 500, "und", id="pictures"),
        pytest.param("", "und", id="nothing"),
        pytest.param("<p>" + "&#" * 10_000, "und", id="torn references"),
    ],
)
@pytest.mark.parametrize("charset", ["utf-8", "utf-16le", "gb18030"])
def test_the_text_of_a_page_counts(html: str, code: str, charset: str) -> None:
    assert detector().detect_page(html.encode(charset), charset) == code


def test_a_wrong_charset_spoils_only_its_own_letters() -> None:
    html = f"<p>{PT * 9}"
    assert detector().detect_page(html.encode(), "windows-1252") == "por"
    assert detector().detect_page(html.encode("latin-1"), "utf-8") == "por"


def test_a_model_of_the_users(tmp_path: Path) -> None:
    """Labels of lid.176, and those of GlotLID and OpenLID."""
    words = {"por_Latn": "gato", "en": "cat", "zho_Hant": "貓", "als_Latn": "mace"}
    model = str(write_model(tmp_path / "model.bin", words))
    theirs = Detector(model)
    assert codes_of(model) == theirs.codes() == {"por", "eng", "zho", "als"}
    found = [theirs.detect_page(f"<p>{word}".encode(), "utf-8") for word in words.values()]
    assert found == ["por", "eng", "zho", "als"]
    assert theirs.detect("word") == Language("und", 0.0, ())


@pytest.mark.parametrize(
    ("size", "why"), [(0, "be loaded"), (60, "be loaded"), (None, "languages")]
)
def test_what_is_no_model_of_languages(tmp_path: Path, size: int | None, why: str) -> None:
    model = write_model(tmp_path / "model.bin", {"positive": "good", "negative": "bad"})
    model.write_bytes(model.read_bytes()[:size])
    with pytest.raises(SettingError, match=f"{model}.*{why}$"):
        codes_of(str(model))


def test_all_codes_are_iso_639_3() -> None:
    codes = detector().codes()
    assert len(codes) >= 165
    assert {code for code in codes if len(code) != 3} == set()
