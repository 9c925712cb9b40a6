"""`scrapy corpus`: tables and text of the pages in WARC files.

- `text`: the text of a page. `language`: the language of a text. `neardup`: pages with nearly the
  same text.
"""
