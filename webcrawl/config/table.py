"""The table of settings: the kind and the meaning of each.

The check before a crawl, every reader of a setting, report.json and docs/settings.md use this
table. It has no defaults: these are in `webcrawl.settings` and in Scrapy. A setting that is not in
this table is Scrapy's own, or may have any value. A new setting needs a default in
`webcrawl.settings` and a row here; then `python -m webcrawl.tools.settingspage > docs/settings.md`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from scrapy.settings import BaseSettings

from webcrawl.config import kinds
from webcrawl.config.kinds import BOOL, FAULTS, Kind, SettingError, number, one_of, seconds, whole
from webcrawl.frontier.orderings import ORDERINGS

T = TypeVar("T")


class Setting(NamedTuple):
    """A row of the table."""

    name: str
    kind: Kind
    meaning: str  # in Markdown, without links
    see: str = ""  # the page of docs/ with more details


SECTIONS: dict[str, tuple[Setting, ...]] = {
    "What is crawled": (
        Setting(
            "SCOPE_SUFFIXES",
            kinds.SUFFIXES,
            "Host name suffixes in scope, on a label boundary: `.br` takes `uol.com.br`, not"
            " `x.br.com`. Empty: the whole web.",
            "crawling.md#scope",
        ),
        Setting(
            "SCOPE_DENY",
            kinds.NAMES,
            "Hosts (with their subdomains), regular expressions, or `@file` of these, that are out"
            " of scope. `SCOPE_DENY` wins over `SCOPE_ALLOW`.",
            "crawling.md#scope",
        ),
        Setting(
            "SCOPE_ALLOW",
            kinds.NAMES,
            "The only hosts, regular expressions or `@file` of these in scope. Empty: all.",
            "crawling.md#scope",
        ),
        Setting(
            "SCOPE_RULES",
            kinds.FUNCTIONS,
            "Your own rules, called with the URL and its host.",
            "extending.md#scope-rules",
        ),
        Setting(
            "FOLLOW_LINKS",
            BOOL,
            "`False`: fetch the seed list only; redirects are not followed either.",
        ),
        Setting(
            "PAGE_REQUISITES",
            BOOL,
            "Fetch and archive the files that pages show too, of any host and media type: images,"
            " style sheets, scripts, icons, media.",
            "crawling.md#page-requisites",
        ),
        Setting(
            "SITEMAPS",
            kinds.SITEMAPS,
            "Follow the sitemaps that robots.txt names, and seeds that are sitemaps or feeds."
            " `guess`: also try `/sitemap.xml` of hosts whose robots.txt names none. No effect with"
            " `FOLLOW_LINKS=False`.",
            "crawling.md#sitemaps",
        ),
        Setting(
            "FOLLOW_NEAR_DUPLICATES",
            BOOL,
            "`False`: the links of an HTML page are not followed if its text is nearly that of an"
            " earlier page: of a mirror, for example. Needs `webcrawl[corpus]`.",
            "crawling.md#near-duplicates",
        ),
        Setting("OBEY_NOFOLLOW", BOOL, "Obey `nofollow` in meta robots and `X-Robots-Tag`."),
        Setting(
            "OBEY_NOARCHIVE",
            BOOL,
            "Obey `noarchive` in meta robots and `X-Robots-Tag`: such a page is counted and its"
            " links are followed, but its answer is not archived.",
            "manners.md#noarchive",
        ),
        Setting("DEPTH_LIMIT", whole(0), "Maximum number of link hops from a seed. 0: no limit."),
        Setting(
            "URLLENGTH_LIMIT",
            whole(0),
            "Maximum length of a URL in characters; longer URLs are out of scope. 0: no limit.",
        ),
        Setting(
            "TRAPS",
            BOOL,
            "Refuse URLs of endless sites: paths with more than 20 segments or with a segment more"
            " than 4 times, and a host's numbered pages more than 500 in a row (calendars,"
            " `?page=2`). `False`: no such limit; `SCOPE_RULES` can set others.",
            "crawling.md#traps",
        ),
        Setting(
            "MAX_PAGES_PER_HOST",
            whole(0),
            "Maximum number of URLs taken from one host. 0: no cap. 1: one page per host.",
        ),
        Setting(
            "MAX_PAGES_PER_DOMAIN",
            whole(0),
            "Maximum number of URLs taken from one registered domain. 0: no cap. 1: one page per"
            " domain.",
        ),
        Setting(
            "MAX_PAGES_PER_IP",
            whole(0),
            "Maximum number of URLs taken from one IP address. 0: no cap. 1: one page per address.",
        ),
        Setting(
            "MAX_BYTES_PER_HOST",
            kinds.SIZE,
            "Maximum number of bytes on the wire from one host, in all runs; then its URLs are"
            " dropped. The last page may exceed it. 0: no limit.",
            "crawling.md#caps-and-ends",
        ),
        Setting(
            "RULES",
            kinds.RULES_FILE,
            "A file with other values for some hosts, domains or suffixes: delay, caps, headers,"
            " deny and more. It is read again when it changes.",
            "manners.md#rules-for-single-hosts",
        ),
        Setting(
            "CONTENT_TYPES",
            kinds.MEDIA_TYPES,
            "Answers of other types are dropped at the header; their body is not read. `image/*`"
            " is all images; `*`, `*/*` or an empty value is everything.",
        ),
        Setting(
            "PARSERS",
            kinds.PARSERS,
            "Parsers of more media types: `{'application/pdf': 'webcrawl.parse.pdf.read_pdf'}`."
            " Name the types in `CONTENT_TYPES` too.",
            "extending.md#a-parser",
        ),
        Setting("HEAD_FIRST", BOOL, "Ask with HEAD before GET, and GET only wanted types."),
        Setting(
            "CLOSESPIDER_PAGECOUNT",
            whole(0),
            "Stop after exactly this many answered pages. 0: no target. If URLs run out before the"
            " target, the crawl ends as `bad_seed` with exit code 1.",
            "architecture.md#the-end-of-a-target",
        ),
        Setting("CLOSESPIDER_TIMEOUT", seconds(), "Stop after this time. 0: no limit."),
    ),
    "Manners": (
        Setting(
            "USER_AGENT",
            kinds.USER_AGENT,
            "**Set this** to a name with a way to reach you: a URL or a mail address."
            " `DEFAULT_REQUEST_HEADERS` or a spider's `user_agent` attribute may replace it.",
        ),
        Setting(
            "DEFAULT_REQUEST_HEADERS",
            kinds.HEADERS,
            "Headers of each request. There is no `Accept-Language`: set it if the crawl wants one"
            " language.",
        ),
        Setting(
            "FROM",
            kinds.MAIL_ADDRESS,
            "The mail address of whoever runs the crawl, for the `From` header of each request."
            " Empty: no such header.",
            "manners.md#who-we-are",
        ),
        Setting(
            "BOT_AUTH_KEY",
            kinds.PATH,
            "The file of a private Ed25519 key (PEM or JWK): each request is signed with it (Web"
            " Bot Auth). Needs `BOT_AUTH_AGENT`. Empty: no signatures.",
            "manners.md#signed-requests",
        ),
        Setting(
            "BOT_AUTH_AGENT",
            kinds.HTTPS_URL,
            "The `https` URL at which your public keys are, for the `Signature-Agent` header.",
            "manners.md#signed-requests",
        ),
        Setting("ROBOTSTXT_OBEY", BOOL, "Obey robots.txt (RFC 9309)."),
        Setting(
            "ROBOTSTXT_USER_AGENT",
            kinds.AGENTS,
            "The crawler's name in robots.txt. Unset: the product token of the user agent that is"
            " sent. With more names, such as `mybot,CCBot`, every name's rules must allow a URL,"
            " and the largest `Crawl-delay` holds. A run with other names fetches each robots.txt"
            " again.",
            "manners.md#several-names",
        ),
        Setting(
            "DOWNLOAD_DELAY",
            seconds(),
            "Minimum time between two requests to one host. A longer `Crawl-delay` replaces it.",
        ),
        Setting(
            "CRAWL_DELAY_MAX",
            seconds(),
            "A longer `Crawl-delay` or adaptive delay is cut to this.",
        ),
        Setting(
            "DELAY_FACTOR",
            number(0),
            "The delay of a host is this many times its smoothed time to first byte, if that is"
            " longer than `DOWNLOAD_DELAY`; doubled at 429 and 503. 0: off.",
            "manners.md#adaptive-delay",
        ),
        Setting(
            "IP_DELAY",
            seconds(),
            "Minimum time between two requests to one IP address. 0: hosts on one address may be"
            " asked at the same time.",
        ),
        Setting(
            "RETRY_TIMES",
            whole(0),
            "Retries after a failure or a status of `RETRY_HTTP_CODES`, each after a longer"
            " back-off; of DNS and robots.txt too. A URL that still has no answer is kept for a"
            " later try.",
            "durability.md",
        ),
        Setting("RETRY_HTTP_CODES", kinds.HTTP_CODES, "Statuses of answers to retry."),
        Setting(
            "REDIRECT_MAX_TIMES",
            whole(0),
            "Maximum number of redirects in a row; each target is queued like any link.",
        ),
    ),
    "How it is fetched": (
        Setting(
            "CONCURRENT_REQUESTS", whole(1), "Maximum number of pages fetched at the same time."
        ),
        Setting(
            "CRAWL_PROCESSES",
            kinds.PROCESSES,
            "Number of processes of this crawl. 0: one per core.",
            "machines.md#several-processes",
        ),
        Setting(
            "CLUSTER",
            kinds.BUS,
            "The bus of a crawl on several machines, such as `nats://host:4222`, and the name of"
            " the crawl there, as in `nats://host:4222/name`. Empty: this machine alone.",
            "cluster.md",
        ),
        Setting(
            "CLUSTER_HUBS",
            kinds.HUBS,
            "Number of hubs: machines with a part of the frontier each. It cannot change later.",
            "cluster.md#several-hubs",
        ),
        Setting(
            "CLUSTER_CHECKPOINTS",
            kinds.FOLDER_OR_UNSET,
            "Folder on another disk for checkpoints of this hub, from which another machine can"
            " restore it. Unset: none.",
            "cluster.md#a-hubs-machine-is-lost",
        ),
        Setting(
            "CLUSTER_SHARED_ADDRESSES",
            kinds.PREFIXES,
            "Prefixes of IP addresses that several hubs may ask at a time, such as those of a"
            " content delivery network. Each hub keeps `IP_DELAY` by its own clock there, and"
            " counts `MAX_PAGES_PER_IP` by itself.",
            "cluster.md#several-hubs",
        ),
        Setting("DOWNLOAD_TIMEOUT", seconds(0.001), "Time-out of one fetch, from start to end."),
        Setting(
            "DOWNLOAD_MAXSIZE",
            whole(0, "bytes"),
            "Maximum size of a body, on the wire and decoded. A larger one is cut: on the wire it"
            " is marked as truncated, decoded its metadata has `decodeProblem`. 0: no limit.",
        ),
        Setting(
            "DOWNLOAD_VERIFY_CERTIFICATES",
            BOOL,
            "`True`: no page from a server with a bad certificate. `False`: such pages are fetched,"
            " and the archive names the problem of the certificate.",
        ),
        Setting(
            "PROXY",
            kinds.PROXY,
            "The HTTP proxy of the whole crawl: `http://host:port`, or `@file` with that URL, which"
            " may have `user:password@`. Pages, robots.txt and DNS go through it, nothing goes past"
            " it. Empty: none. `direct`: none, also in a crawl that was begun with one.",
            "manners.md#a-proxy-for-the-whole-crawl",
        ),
        Setting("DNS_SERVERS", kinds.DNS_SERVERS, "Name servers to ask. Empty: the system's."),
        Setting(
            "ALLOW_PRIVATE_ADDRESSES",
            BOOL,
            "`True`: the crawl may reach loopback, private, link-local and reserved addresses.",
        ),
        Setting(
            "ALLOW_PORTS",
            kinds.PORTS,
            "Ports of other protocols, such as 6000, to which requests may be sent all the same.",
            "crawling.md#ports",
        ),
        Setting(
            "FRONTIER_ORDER",
            one_of(*ORDERINGS),
            "Which URLs come first: `level` (short paths), `depth` (breadth first),"
            " `least-visited` (sites with the fewest fetched pages), `opic` (most-linked pages) or"
            " `language` (hosts with pages in `LANGUAGES`).",
            "crawling.md#orderings",
        ),
        Setting(
            "LANGUAGES",
            kinds.LANGUAGES,
            "Languages whose pages are wanted, by their codes of ISO 639: `pt,eng`. Those of a"
            " sample of pages are found, counted and recorded. Empty: no language is looked for."
            " Needs `webcrawl[corpus]`.",
            "crawling.md#languages",
        ),
        Setting(
            "LANGUAGE_MODEL",
            kinds.LANGUAGE_MODEL,
            "The file of a fastText model of languages, in place of the packaged `lid.176.ftz`, for"
            " the crawl and `scrapy corpus`.",
            "corpus.md#languages",
        ),
        Setting(
            "FRONTIER_STORE",
            one_of("memory", "disk"),
            "Where the crawl's state is. `disk`: it may be larger than memory, and survives a kill;"
            " `memory`: the same crawl, whose state is lost when the run ends.",
            "durability.md",
        ),
        Setting(
            "RECRAWL",
            one_of("off", "fixed", "adaptive"),
            "Whether pages are visited again: `fixed`, each page once in `RECRAWL_CYCLE`;"
            " `adaptive`, as many visits, where they keep most fresh. Such a crawl does not end by"
            " itself.",
            "lasting.md",
        ),
        Setting(
            "RECRAWL_CYCLE",
            kinds.DURATION,
            "Time between two visits of a page, with `adaptive` on the average: `28d`, `12h`...",
            "lasting.md",
        ),
        Setting(
            "JOBDIR",
            kinds.FOLDER_OR_UNSET,
            "The folder of the crawl's state on disk: the same command resumes the crawl. Unset: a"
            " temporary folder, removed at the end of the run.",
            "durability.md",
        ),
        Setting(
            "FRONTIER_ACTIVE_HOSTS",
            whole(1),
            "Maximum number of active hosts, in memory, 2 KB each. The others wait in the store.",
        ),
    ),
    "What is left behind": (
        Setting("WARC_DIR", kinds.FOLDER, "The folder of the WARC files.", "output.md#the-archive"),
        Setting("WARC_PREFIX", kinds.FILE_PREFIX, "The start of the WARC files' names."),
        Setting(
            "WARC_MAX_SIZE",
            kinds.size(1),
            "A WARC file beyond this size is closed, and a new one begun.",
        ),
        Setting(
            "WARC_MAX_TOTAL",
            kinds.SIZE,
            "The crawl ends when its WARC files, of all processes and runs, have this size"
            " together. 0: no limit.",
            "crawling.md#caps-and-ends",
        ),
        Setting(
            "DISK_FREE_MIN",
            kinds.SIZE,
            "The crawl ends, with exit code 1, when a disk of `WARC_DIR` or `JOBDIR` has less free"
            " space than this; with `ARCHIVE_STORE` it pauses until there is more. 0: the crawl"
            " ends when a write fails.",
            "crawling.md#caps-and-ends",
        ),
        Setting(
            "WARC_OMIT_HEADERS",
            kinds.HEADER_NAMES,
            "Headers that are left out of the request records, since they may be secrets. Empty:"
            " the records have all that was sent.",
            "manners.md#a-login-a-cookie",
        ),
        Setting("WARC_COLLECTION", kinds.ONE_LINE, "Name of the collection (warcinfo record)."),
        Setting("WARC_OPERATOR", kinds.ONE_LINE, "Who runs the crawl (warcinfo record)."),
        Setting("WARC_DESCRIPTION", kinds.ONE_LINE, "What the crawl is for (warcinfo record)."),
        Setting(
            "WARC_PAYLOAD_DIGEST",
            one_of("wire", "payload", "none"),
            "The bytes that `WARC-Payload-Digest` covers: the body as sent (`wire`), or the body"
            " without chunk framing (`payload`). `none`: no such field.",
            "output.md#the-archive",
        ),
        Setting("WARC_ENABLED", BOOL, "`False`: no archive."),
        Setting(
            "DEDUP_INDEX",
            kinds.INDEXES,
            "Indexes of earlier archives: CDXJ files (`.cdxj`, `.cdxj.gz`) or folders of them. A"
            " page that they hold in the same bytes becomes a `revisit` record that refers to it.",
            "output.md#earlier-archives",
        ),
        Setting(
            "ARCHIVE_STORE",
            kinds.STORE,
            "The object store to which finished WARC files, their indexes, the crawl log and the"
            " report go: `s3://bucket/prefix`, `gs://`, `az://` or `file://`. WARC files leave the"
            " disk of this machine when they are there. Credentials are in the environment.",
            "output.md#an-object-store",
        ),
        Setting(
            "REPORT_DIR",
            kinds.FOLDER_OR_UNSET,
            "The folder of `report.json`, `report.txt`, the crawl log and the time series; those of"
            " earlier runs stay. Empty: `WARC_DIR`.",
            "output.md#reportjson",
        ),
        Setting(
            "STATS_INTERVAL",
            seconds(),
            "Time between stats lines. 0: the summary at the end only.",
            "watching.md#the-two-lines",
        ),
        Setting(
            "LIVE",
            kinds.LIVE,
            "The page that shows and steers the running crawl, on this port of 127.0.0.1. 1: a free"
            " port. 0: off. The first line on standard output has the page's URL. With `LOG_FILE`"
            " it needs a `JOBDIR`.",
            "watching.md#the-live-page",
        ),
        Setting(
            "OWN_NAMES",
            kinds.NAMES,
            "Names of your own settings and spider arguments that resemble known ones, and would be"
            " refused as misspelt.",
        ),
    ),
}
TABLE = {each.name: each for section in SECTIONS.values() for each in section}

# The twelve that matter: why a user sets them. `scrapy crawl --help` and docs/settings.md begin so.
MOST_USED = {
    "USER_AGENT": "who you are, with a way to reach you: set it before any crawl of the web",
    "SCOPE_SUFFIXES": "which part of the web is crawled, such as `.br`",
    "SCOPE_DENY": "hosts and patterns that are left out",
    "MAX_PAGES_PER_HOST": "how much of each host is taken; 1 is one page per host",
    "CLOSESPIDER_PAGECOUNT": "how many pages are enough",
    "DOWNLOAD_DELAY": "how long a host is left alone between two requests",
    "CONCURRENT_REQUESTS": "how many hosts are asked at a time",
    "CRAWL_PROCESSES": "how many cores the crawl uses",
    "FRONTIER_ORDER": "which pages come first; it cannot change later",
    "JOBDIR": "where the state is, so that a crawl can be resumed",
    "WARC_DIR": "where the archive goes",
    "LIVE": "a page in the browser that shows and steers the running crawl",
}


def read(settings: BaseSettings, name: str, type_: type[T]) -> T:
    """The value of setting `name` of the table, as a `type_`. SettingError if it cannot be used.

    A setting that is unset or empty is read as `type_()` (0, False, an empty list), unless it is a
    text. A drop-in middleware finds such settings in a project without the defaults of this one.
    """
    kind, value = TABLE[name].kind, settings.get(name)
    if type_ is not str and (value is None or value == ""):
        return type_()
    try:
        typed = kind.typed(value)
    except FAULTS as error:
        raise SettingError(name, value, kind.reason(error)) from None
    assert isinstance(typed, type_), f"{name} is no {type_.__name__}"
    return typed


def typed_settings(settings: BaseSettings) -> dict[str, object]:
    """Every setting of the table with its type, for reports and archives: without secrets.

    Headers may be a login: only their names are there. A value that cannot be used may be anything.
    """
    values: dict[str, object] = {
        name: _shown(row.kind, settings[name]) for name, row in TABLE.items() if name in settings
    }
    if isinstance(headers := values.get("DEFAULT_REQUEST_HEADERS"), dict):
        values["DEFAULT_REQUEST_HEADERS"] = sorted(headers)
    if values.get("BOT_AUTH_KEY"):  # a file; but a user may give the key itself
        values["BOT_AUTH_KEY"] = "set"
    return values


def _shown(kind: Kind, value: object) -> object:
    try:
        return kind.typed(value)
    except FAULTS:
        return "not shown"
