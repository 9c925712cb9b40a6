"""`scrapy frontier JOBDIR`: looks into the frontier of a crawl, and mends it."""
