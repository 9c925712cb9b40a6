"""The archive: WARC 1.1 files (ISO 28500:2017), written, read, and recovered after a crash.

Knows nothing of Scrapy. In the order in which to read it:

- Write a capture: `records` (an exchange becomes the bytes of its records), `payload` (the body
  without chunk framing, for digests), `payloadtype` (its type by its first bytes), `protocols`
  (fields for HTTP and TLS), `members` (gzip), `files` (names, locks, rotation, durability),
  `writer` (the same from an event loop). `pipelines.metadata` has the lines of a metadata record.
- Write its line of the index: `surt` (the key), `cdxj` (the line), `index` (the sorted file).
- Read: `reader` (records), `captures` (answers with their metadata). After a kill: `recovery`.
- Keep: `objects` (files in an object store).

`webcrawl.tools.warccheck` checks the files.
"""
