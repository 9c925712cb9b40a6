"""From WARC files to a corpus: `scrapy corpus`. Needs the extra `corpus`. In reading order:

- `command`: the options. `corpus`: the run, its processes and what it leaves on disk.
- `captures`: an answer in a file of any writer, as `webcrawl.warc.captures` finds it.
- `rows`: the columns that a capture's own records tell; `urlparts`, `signals`, `text`, `neardup`
  and `parse.detection` are asked for them. `parts` writes them, one process per core.
- `resolve`: what takes all captures to know: originals of revisits, near-duplicates, the crawl log.
- `outputs`, `wet`: the tables and the texts. `columns`: their columns, for the code and the manual.

Nothing here uses the network.
"""
