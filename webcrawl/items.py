"""The broad spider's item: one Page for each answer that is kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from webcrawl.fetch.exchange import Exchange
from webcrawl.warc.records import Original


@dataclass
class Page:
    """One answer, as item pipelines and feed exports see it.

    The fields are plain values, so that `-o pages.jsonl` works. The bytes, and what only the crawl
    needs, are beside them, in attributes that are not fields (`__post_init__`).
    """

    url: str  # canonical, as asked
    status: int
    content_type: str = ""  # media type, lower case, without parameters
    charset: str = ""  # WHATWG name; "" if the page was not parsed
    lang: str = ""  # that the page declares (docs/output.md), lower case
    # Of its text, ISO 639-3 or "und"; "" if that was not looked at (LANGUAGES)
    detected_language: str = ""
    size_bytes: int = 0  # of the body with transfer and content codings removed
    depth: int = 0  # link hops from a seed
    redirects: int = 0  # redirect hops in a row that led here
    via: str = ""  # the page the link was found on; "" for a seed
    ip: str = ""
    fetched_at: str = ""  # UTC, ISO 8601
    fetch_s: float = 0.0
    truncated: str = ""
    # "sha1:BASE32" of the body on the wire; after the archive's pipeline, the WARC-Payload-Digest
    payload_digest: str = ""
    duplicate_of: str = ""  # the first URL with this content
    # The first URL with nearly this text: the links are not followed (FOLLOW_NEAR_DUPLICATES)
    near_duplicate_of: str = ""
    # Of a page that was visited before (RECRAWL): whether its main text is as it was. A 304 has the
    # status 304, no body and no links, and is unchanged. None: a first visit, or not known
    unchanged: bool | None = None
    redirect_to: str = ""  # canonical target of a 3xx
    links: list[str] = field(default_factory=list)  # canonical outlinks, each once, in order
    links_found: int = 0  # http(s) links, repeats included
    noarchive: bool = False  # its owner forbids keeping a copy
    wall: str = ""  # this is no page, but the bot wall of this service (fetch.walls)
    # What its owner says about its use, "NAME: VALUE" (parse.ownersignals)
    signals: list[str] = field(default_factory=list)
    title: str = ""  # of an HTML page that was read, 500 characters at most
    # Its response or revisit record: "" and 0 if it has none. The crawl log has the same
    warc_filename: str = ""
    warc_record_offset: int = 0
    superseded: bool = False  # the URL is tried again, as after a 503: a later item replaces this

    def __post_init__(self) -> None:
        self.simhash: int | None = None  # with RECRAWL: of the main text (`parse.maintext`)
        self.requisites: list[str] = []  # canonical URLs of the files that it shows
        self.embeds = 0  # of a requisite: hops from the page that shows it
        self.exchange: Exchange | None = None
        self.original: Original | None = None
