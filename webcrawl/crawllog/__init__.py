"""The crawl log: one line for each URL that had its turn, whether it was kept or not.

- `line`: the fields of a line, and its bytes. docs/output.md is the page for readers.
- `details`: the fields that only the answer tells.
- `places`: which records of the archive have a line.
- `files`: the files of the lines, bound to the commits of the frontier.
"""
