"""Every default of the crawler, with its reason. Users override with `-s NAME=VALUE`, in a spider's
`custom_settings`, or in a settings module of their own that starts with
`from webcrawl.settings import *`. README.md has the table.
"""

from importlib.util import find_spec

from scrapy.settings import default_settings

from webcrawl import __version__

BOT_NAME = "webcrawl"
SPIDER_MODULES = ["webcrawl.spiders"]
NEWSPIDER_MODULE = "webcrawl.spiders"
COMMANDS_MODULE = "webcrawl.commands"

# Who we are. Say in USER_AGENT how you can be reached: "name/1.0 (+https://example.org/crawl)".
USER_AGENT = f"webcrawl/{__version__}"
ROBOTSTXT_USER_AGENT = None  # None: the product token of USER_AGENT
# No Accept-Language: a site's own language is the one to archive.
DEFAULT_REQUEST_HEADERS = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

# Politeness.
ROBOTSTXT_OBEY = True
ROBOTS_PARSER = "webcrawl"  # protego, or the import path of a parser: parse/robotsparsers.py
DOWNLOAD_DELAY = 30  # half a minute between two requests to a server harms nobody
IP_DELAY = 1.0
CRAWL_DELAY_MAX = 300.0  # a robots.txt that asks for more is given this much
DOWNLOAD_DELAY_JITTER = 0  # the frontier's clocks are exact
HOST_MAX_FAILURES = 20  # attempts in a row without any answer before a host is given up

# What is fetched.
SCOPE_SUFFIXES: list[str] = []
SCOPE_DENY: list[str] = []
SCOPE_ALLOW: list[str] = []
SCOPE_RULES: list[str] = []
FOLLOW_LINKS = True
OBEY_NOFOLLOW = True  # meta robots and X-Robots-Tag
FOLLOW_REL_NOFOLLOW = True  # rel=nofollow is a hint to rankers (RFC-less; HTML 4.6.7.13)
DEPTH_LIMIT = 0
URLLENGTH_LIMIT = 2083
# Traps. Of 91,000 real URLs none meets the first two; docs/architecture.md has the reasons.
PATH_DEPTH_LIMIT = 20  # Heritrix's TooManyPathSegmentsDecideRule
PATH_REPEAT_LIMIT = 4  # of one segment; 3 times is usual: /sympy/sympy/blob/master/sympy/
SEQUENCE_LIMIT = 500  # numbered pages in a row, each found on the one before: four hours at 30 s
MAX_PAGES_PER_HOST = 0
MAX_PAGES_PER_DOMAIN = 0
MAX_PAGES_PER_IP = 0
CONTENT_TYPES = ["text/html", "application/xhtml+xml"]
HEAD_FIRST = False
CLOSESPIDER_PAGECOUNT = 0
CLOSESPIDER_TIMEOUT = 0

# How it is fetched.
CONCURRENT_REQUESTS = 512
CRAWL_PROCESSES = 1  # 0: one for each core; the crawl is one, whatever their number
CRAWL_PROCESS_TIMEOUT = 120.0  # seconds of silence, then it is taken for dead; code may hold it up
CONCURRENT_ADMISSIONS = 512  # DNS look-ups, robots.txt and HEAD requests, beside the pages
DOWNLOAD_TIMEOUT = 15
KEEP_ALIVE = 15.0  # seconds that a connection waits for its host's next page, if delays are shorter
DOWNLOAD_MAXSIZE = 10 * 1024 * 1024
DOWNLOAD_WARNSIZE = 0  # large pages are cut and counted, not lines of the log
DOWNLOAD_MAXHEADERSIZE = 32768  # FastWARC's reader stops at a record with a longer head
REDIRECT_MAX_TIMES = 20
RETRY_TIMES = 2
OUTAGE_TIMEOUT = 6 * 3600.0  # seconds that an outage of our own network is waited for
CLOSE_GRACE = 5.0  # seconds that fetches under way are given when the crawl is stopped
DNS_SERVERS: list[str] = []
ALLOW_PRIVATE_ADDRESSES = False
DOWNLOADER = "webcrawl.downloader.Downloader"
DOWNLOAD_HANDLERS = {
    "http": "webcrawl.downloader.DownloadHandler",
    "https": "webcrawl.downloader.DownloadHandler",
}

# The frontier.
SCHEDULER = "webcrawl.scheduler.Scheduler"
FRONTIER_STORE = "disk"  # in JOBDIR, or a temporary folder that goes with the run; or memory
FRONTIER_ACTIVE_HOSTS = 20_000  # in memory, 2 KB each; at 30 s a host enough for 660 pages/s
FRONTIER_ORDER = "level"  # opic takes the important pages first, at less than twice the cost a link

# What is left.
ITEM_PIPELINES = {"webcrawl.pipelines.warc.WarcPipeline": 300}
WARC_ENABLED = True
WARC_DIR = "warc"
WARC_PREFIX = "webcrawl"
WARC_MAX_SIZE = 1_000_000_000
WARC_PAYLOAD_DIGEST = "wire"  # what warcio and FastWARC verify; jwarc verifies "payload"
WARC_COLLECTION = ""
WARC_OPERATOR = ""
WARC_DESCRIPTION = ""
REPORT_DIR = ""  # of report.json and report.txt; empty: WARC_DIR

# What is said.
LOG_LEVEL = "INFO"
LOG_FORMATTER = "webcrawl.report.logformatter.LogFormatter"
STATS_INTERVAL = 2.0
STATS_CLASS = "webcrawl.fastpath.StatsCollector"
LOGSTATS_INTERVAL = 0  # the stats lines say more
EXTENSIONS = {
    "webcrawl.extensions.startcheck.StartCheck": 0,
    "webcrawl.extensions.statslines.StatsLines": 100,
    "webcrawl.extensions.report.CrawlReport": 200,
    "webcrawl.extensions.processes.Processes": 300,
    "webcrawl.extensions.allocator.OneHeap": 0,
    "webcrawl.extensions.garbage.GcTuning": 900,
    "webcrawl.fastpath.FastPath": 910,  # None: Scrapy's engine, 200 us a page more
    # Scrapy's leaves half a file when it is killed, and a traceback when the disk is full.
    "scrapy.extensions.spiderstate.SpiderState": None,
    "webcrawl.extensions.spiderstate.SpiderState": 0,
    # Scrapy's loses items when it is killed, and a full disk is a traceback for each.
    "scrapy.extensions.feedexport.FeedExporter": None,
    "webcrawl.extensions.feeds.FeedExporter": 0,
    # Its page count is the scheduler's here, exact even with fetches under way.
    "scrapy.extensions.closespider.CloseSpider": None,
    "webcrawl.extensions.closespider.CloseSpider": 0,
    "webcrawl.extensions.remotecontrol.RemoteControl": 0,
}
# Without the one that ours stands in for: None as above would import it, which takes 8 MB.
EXTENSIONS_BASE = {
    path: place
    for path, place in default_settings.EXTENSIONS_BASE.items()
    if path != "scrapy.extensions.remote_control.RemoteControl"
}

# Scrapy's parts that the frontier and the handler stand in for: each would cost every request.
# Set a middleware back to its usual number to use it.
DOWNLOADER_MIDDLEWARES = {
    "webcrawl.middlewares.DomainFilter": 60,
    "webcrawl.middlewares.HostUniqueness": 70,
    "webcrawl.middlewares.IpUniqueness": 80,
    "webcrawl.middlewares.RobotsTxt": 100,
    "webcrawl.middlewares.DownloaderStats": 850,
    "scrapy.downloadermiddlewares.stats.DownloaderStats": None,
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware": None,
    "scrapy.downloadermiddlewares.defaultheaders.DefaultHeadersMiddleware": None,
    "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware": None,
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
}
SPIDER_MIDDLEWARES = {
    "webcrawl.crawl.PageFetchMiddleware": 0,  # outermost: it sees what the engine will get
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,
    "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
}
# The engine. Measured: 100 (Scrapy's default) costs 1.5 ms a page in tasks that do nothing.
CONCURRENT_ITEMS = 1
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 64 * 1024 * 1024
GC_THRESHOLD = (50_000, 20, 100)
COOKIES_ENABLED = False
# Ports that run code for whoever connects are no part of a crawler.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
# 15 % less CPU a page than asyncio's own loop, which serves as well where there is no uvloop.
ASYNCIO_EVENT_LOOP = "uvloop.Loop" if find_spec("uvloop") else None
