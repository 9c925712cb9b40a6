"""Item pipelines. `warc` hands each page and each robots.txt to the archive (`webcrawl.warc`)."""
