"""`scrapy warcrecover`: what the start of a crawl does to the WARC files of killed ones."""
