"""The objects that the Scrapy parts of one crawl share. Read in this order:

- `crawl`: `Crawl`, the one object on the crawler, and the scheduler as other parts call it
- `page_fetch`: `PageFetch`, a lease on its way through Scrapy, and the one key of `request.meta`
- `spidermiddleware`: takes a page's outlinks and ends its page fetch
- `outcomes`: how each end of a Request becomes one outcome of its lease
- `answers`: how an answer becomes a `Page`. `requisites`: the answers that are no pages
- `reconstruction`: an exchange for an answer that our download handler did not fetch
- `user_requests`: Requests that a spider or a middleware makes itself
- `scrapy_private`: the private names of Scrapy that the crawl needs, and what is lost without them
- `lost`: the answers of killed processes, which the crawl log has no lines of
- `steering`: the commands for a running crawl; `keptcommands`: those that its next run obeys
"""

from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.page_fetch import state_of
from webcrawl.crawl.spidermiddleware import PageFetchMiddleware

__all__ = ["PageFetchMiddleware", "crawl_of", "state_of"]
