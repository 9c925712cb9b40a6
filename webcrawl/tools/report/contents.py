"""The contents of the page: its sections and figures, with titles and captions, and the columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from webcrawl.tools.report.report import Report
from webcrawl.wording import counted

Note = Callable[[Report], str]


@dataclass(frozen=True, slots=True)
class Figure:
    """A table, a plot, or both. `plot` is a name of `plots`, "" without one."""

    table: str
    title: str
    caption: str
    plot: str = ""
    is_plot_only: bool = False  # the table is in its CSV file only


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    title: str
    note: Note
    figures: tuple[Figure, ...]
    is_paired: bool = False  # two figures in a row where there is room

    @property
    def tables(self) -> list[str]:
        return [figure.table for figure in self.figures]


def _plot(table: str, plot: str, title: str, caption: str) -> Figure:
    return Figure(table, title, caption, plot, is_plot_only=True)


def _said(text: str) -> Note:
    return lambda report: text


def _of_hosts(report: Report) -> str:
    sizes = report.tables["host_sizes"].records()
    hosts = sum(row["hosts"] for row in sizes)
    pages = report.totals["html_pages_kept"]
    return (
        f"{pages:,} documents on {hosts:,} hosts, {pages / hosts if hosts else 0:.1f} per host."
        f" {report.one_page_share:.1%} of these hosts have one document. A document is a 2xx answer"
        " whose body was kept."
    )


def _of_walls(report: Report) -> str:
    """The bot walls by service."""
    each = [
        f"{service}: {counted(walls, 'answer')} of {counted(hosts, 'host')}"
        for service, walls, hosts in report.walls
    ]
    return (
        f"Answers of bot-blocking services in the place of pages. {'; '.join(each) or 'None'}."
        " They are no documents, and no link of them was followed."
    )


def _of_links(report: Report) -> str:
    found = report.in_degree
    return (
        f"{found['pages_that_link']:,} of {found['pages_read']:,} documents link to"
        f" {report.domain} or a subdomain: {found['from_inside']:,} from inside it and"
        f" {found['from_outside']:,} from outside. Read from the outlinks in the WARC files'"
        " metadata records; pages without outlinks were parsed again."
    )


SECTIONS = (
    Section(
        "summary",
        "Summary",
        _said("The whole crawl, all its runs. One MB is a million bytes."),
        (
            Figure(
                "funnel",
                "Funnel: how many URLs passed each stage",
                "E, H, I, R and C count URLs; shares are of E. D counts hosts, and is not drawn.",
                "funnel",
            ),
            Figure(
                "codes",
                "HTTP codes of the pages",
                "The last answer of each URL; sizes are on the wire. A page whose last visit was"
                " answered by the 304 asked for has the answer before.",
            ),
            Figure(
                "visits",
                "What later visits of pages and sitemaps found",
                "Only with RECRAWL. not_modified: a 304; unchanged: the same main text.",
            ),
            Figure(
                "reasons",
                "Reasons of every loss",
                "dropped: will not be fetched. kept: will be tried again. answered, not kept: the"
                " body was not wanted (done in the CSV file). refused: links that never entered the"
                " queue.",
            ),
        ),
    ),
    Section(
        "time",
        "Over time",
        lambda report: (
            "Each point is the mean since the point before."
            if report.tables["series"].first(2)[1:]
            else "There is no time series of this crawl, or it has one point."
        ),
        (
            _plot(
                "series",
                "speed",
                "Speed in pages and megabits a second",
                "robots.txt counts in megabits only.",
            ),
            _plot(
                "series", "rates", "Rates of each stage, per second", "The stages of the funnel."
            ),
            _plot(
                "series", "under_way", "Fetches under way", "Requests sent and not yet answered."
            ),
            _plot(
                "series",
                "frontier",
                "Frontier: URLs queued",
                "URLs queued, those kept for a later try included.",
            ),
        ),
        is_paired=True,
    ),
    Section(
        "latency",
        "Latency",
        _said("Milliseconds of the answered page requests, and of each host's DNS look-up."),
        (
            _plot(
                "latency_distribution",
                "latency",
                "Distribution of the times of each stage",
                "The share of requests that took less than so long. Logarithmic axis.",
            ),
            Figure(
                "latency", "Quantiles of the times of each stage", "p90: nine of ten took less."
            ),
        ),
    ),
    Section(
        "levels",
        "Levels",
        _said("The level of a URL is 1 plus the words between slashes in its path, 10 at most."),
        (
            Figure(
                "levels",
                "URLs by level: found, and what came of them",
                "Queued: those under way and those kept for a later try included.",
                "levels",
            ),
        ),
    ),
    Section(
        "documents",
        "Documents",
        _said(
            "A document is a 2xx answer whose body was kept. Sizes are without transfer and content"
            " codings."
        ),
        (
            _plot(
                "page_bytes",
                "page_bytes",
                "Size of documents (bytes)",
                "Ten bins per decade, both axes logarithmic.",
            ),
            _plot(
                "page_links",
                "page_links",
                "Links per document",
                "http(s) links, repeats included; documents without links are in the CSV.",
            ),
            _plot(
                "tokens",
                "tokens",
                "Tokens per document",
                "Words of the visible text; documents without text are in the CSV.",
            ),
            Figure(
                "spread",
                "Mean, quantiles and maximum",
                "Over all documents; tokens over those with a body in the WARC files.",
            ),
        ),
        is_paired=True,
    ),
    Section(
        "types",
        "Media types, character sets, languages",
        _said(
            "As the answers declare them, in lower case. The character set is the one by which"
            " links were read."
        ),
        (
            Figure("media_types", "Media types of the pages answered", "All HTTP codes."),
            Figure("charsets", "Character sets of the documents", "By the rules of browsers."),
            Figure(
                "languages", "Languages of the documents", "The lang attribute of the html element."
            ),
        ),
    ),
    Section(
        "hosts",
        "Hosts and domains",
        _of_hosts,
        (
            _plot(
                "host_sizes",
                "host_sizes",
                "Hosts by number of documents: exactly n, and n or more",
                "Both axes are logarithmic.",
            ),
            Figure("largest_hosts", "Largest hosts", "By documents."),
            Figure(
                "registered_domains",
                "Registered domains",
                "By the public suffix list, its ICANN section.",
            ),
            Figure(
                "public_suffixes",
                "Public suffixes: second-level domains such as com.br, and top-level ones",
                "Where names can be registered.",
            ),
            Figure(
                "hosts",
                "Registry of all hosts",
                "Visited: URLs that were requested. Being visited: the running crawl has URLs of it"
                " queued or under way. Time: of all its requests, robots.txt included.",
            ),
        ),
    ),
    Section(
        "walls",
        "Bot walls",
        _of_walls,
        (
            Figure(
                "walls",
                "Bot walls by service and host",
                "Pages: documents of the host. Last: UTC.",
            ),
        ),
    ),
    Section(
        "seeds",
        "Seeds",
        _said(
            "Seeds that are out of scope, and repeats, never enter the queue and are not listed."
        ),
        (
            Figure(
                "seeds",
                "Seeds and what came of each",
                "Pages: documents of the seed's host, and of its registered domain.",
            ),
        ),
    ),
    Section(
        "questions",
        "Questions of scale",
        _said("This crawl as a sample of the web: what a much larger crawl would meet."),
        (
            Figure(
                "questions",
                "Web graph, bandwidth and probabilities",
                "Each with its formula. 1 Gbit/s is 10⁹ bits per second.",
            ),
        ),
    ),
    Section(
        "in-degree",
        "Links into a domain",
        _of_links,
        (
            Figure(
                "in_degree",
                "Pages that link into the domain",
                "Inside: the page is in the domain itself.",
            ),
        ),
    ),
)

_LABELS = {
    "count": ("Count", "count"),
    "stage": ("Stage", "text"),
    "status": ("Code", "label"),
    "level": ("Level", "label"),
    "of": ("Of", "text"),
    "from": ("From", "text"),
    "url": ("URL", "url"),
    "redirect_to": ("Redirects to", "url"),
    "end": ("End", "text"),
    "value": ("Value", "quantity"),
    "unit": ("Unit", "unit"),  # not shown: it stands behind the value
    "urls": ("URLs", "count"),
    "visited_urls": ("Visited URLs", "count"),
    "pending": ("Queued", "count"),
    "pending_urls": ("Queued URLs", "count"),
    "host": ("Host", "host"),
    "registered_domain": ("Registered domain", "host"),
    "mean": ("Mean", "number"),
    "max": ("Max", "number"),
    "size_bytes": ("On the wire", "bytes"),
    "body_bytes": ("Size", "bytes"),
    "media_type": ("Media type", "text"),
    "charset": ("Character set", "text"),
    "lang": ("Language", "text"),
    "time_s": ("Time", "s"),
    "share": ("Share", "share"),
    "share_of_extracted": ("Share of E", "share"),
}
STAGE_NAMES = {"dns": "DNS", "connect": "connect", "first_byte": "first byte", "total": "total"}
# Values that the page and the printed lines have in other words than the CSV, by table and column.
WORDS = {
    ("reasons", "ended_as"): {"done": "answered, not kept"},
    ("latency", "stage"): STAGE_NAMES,
    ("seeds", "end"): {"pending": "queued"},
}
_TEXTS = frozenset(("meaning", "reason", "visit", "ended_as", "public_suffix")) | {
    "being_visited",
    "name",
    "service",
    "last",
    "figure",
    "formula",
    "end",
    "stage",
}


def label_of(column: str) -> tuple[str, str]:
    """Heading and kind of a column: text, url, host, label, count, number, bytes, share, ms, s,
    or quantity, whose unit is in the column of the kind unit.
    """
    if column in _LABELS:
        return _LABELS[column]
    if column.endswith("_ms"):
        label = column[:-3].replace("_", " ")
        return label if label[1:].isdigit() else label.capitalize(), "ms"
    if column.startswith("p") and column[1:].isdigit():
        return column, "number"
    return column.replace("_", " ").capitalize(), "text" if column in _TEXTS else "count"
