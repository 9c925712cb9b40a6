"""Item pipelines. `warc` hands each page and each robots.txt to the archive (`webcrawl.warc`).

`recovery`: when the files of killed processes are recovered. `provenance`: what each file says of
the crawl.
"""
