"""`scrapy explain`: what has decided about one URL. `live.explanation` has the sentences."""
