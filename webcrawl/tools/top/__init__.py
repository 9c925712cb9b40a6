"""`scrapy top JOBDIR`: a running crawl in a terminal. `screen` makes the lines, `command` draws."""
