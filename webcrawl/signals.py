"""Scrapy signals of this project, beside Scrapy's own.

Each is sent through `crawler.signals`. Sender and receivers do not know of each other: a receiver
stands in a layer above the sender or beside it, may be switched off by a setting, and may be
replaced by a user's class. Connect your own receivers in the same way.
"""

# A robots.txt was answered, whatever its status.
#
# Argument: `exchange` (webcrawl.fetch.exchange.Exchange). Sent by the scheduler with
# `send_catch_log_async`: the admission of the host continues once all receivers are done.
# Received by `WarcPipeline`, which writes the exchange into the archive.
# Why a signal: robots.txt does not pass through Scrapy's engine, so no spider yields it as an item
# and no item pipeline sees it.
exchange_recorded = object()

# A page requisite was answered (PAGE_REQUISITES).
#
# Argument: `page` (webcrawl.items.Page), with its exchange. Sent by `crawl.requisites` with
# `send_catch_log_async`: the requisite counts as fetched once all receivers are done.
# Received by `WarcPipeline`, which archives it, or raises NotArchived.
# Why a signal: as for `exchange_recorded`.
requisite_fetched = object()

# The crawl begins to close, for whatever reason: no new request is sent from now on.
#
# No arguments. Sent once, by `Pump`, with `send_catch_log`.
# Received by `Processes`, which ends the crawl's other processes.
# Why a signal: Scrapy's `spider_closed` comes only after all requests in progress have ended.
crawl_closing = object()

# A process of the crawl on this machine has died, and its leases are back.
#
# Argument: `pid` (int). Sent by `Processes` with `send_catch_log_async`.
# Received by `Recovery`, which recovers the files of the process.
# Why a signal: the archive may be switched off, or be another one.
process_died = object()

# Fetches in progress are cut off.
#
# Argument: `urls` (frozenset[str]): cut off these fetches only. Absent: cut off all of them.
# Sent by `Pump` with `send_catch_log`. Without `urls`: the crawl is closing, and its target is
# met, CLOSE_GRACE_S is over or the frontier has failed; the pump repeats it until no fetch is left.
# With `urls`: these fetches are slow, the target waits for them, and other pages are ready.
# Received by `DownloadHandler`, which calls `Client.abort`, and without `urls` by `BroadSpider`,
# which gives up reading large pages and sitemaps.
# Why a signal: Scrapy creates the download handler on its first use and gives no access to it.
fetches_cut = object()
