"""The whole state of a crawl in one RocksDB database: in JOBDIR/frontier, or in memory.

Read in this order:

1. `database`: RocksDB as an ordered map of bytes with commits; its options and its memory.
2. `rows`: the keys and values of all rows.
3. `rowline`: a line of rows, the first of them in memory. `seenrows`: the rows of URLs.
   `visitrows`: the rows of pages that are visited again. `queue`: the queue of a host.
   `hosts`: the rows of hosts, and the lines of those that wait.
4. `store`: `Store`, all state of `frontier.core`. `identity`: which crawl a folder belongs to.
5. `frontier`: `LocalFrontier`, which the crawl uses: it locks the folder and runs the batches.
6. `inspection`: reads a folder from outside, for `scrapy frontier` and `explain`.

Rows. The database has one column family. The first byte of a key is the kind of the
row, a constant in `rows`; a host's id is its number in order of discovery. After each kind: its
writer and reader in a crawl; its reader in an `Inspection`.

- SEEN `s` fingerprint: a URL ever found. Empty, or its credit (`opic`), while the URL is queued or
  leased; then its status. `SeenRows`; `status`.
- QUEUE `q` host id, priority, number: a link that is queued or leased. `HostQueue`; `pending`,
  `in_line`.
- HOST `h` host name: the state of a host, such as the length of its queue, its clocks, its
  addresses. `HostRows`; `host`, `hosts`.
- WAITING `w` rank, number, host id: the name of a host that waits for a place among the active
  hosts. `HostRows`; `hosts_before`.
- DEFERRED `t` run, time, host id: the name of a host whose links are all kept for a later try,
  which in this run comes at this time or later. `HostRows`.
- ACTIVE `a` host id: the name of a host with links that has a place among the active hosts, or is
  about to get one. `HostRows.write`; read once by the next run (`active_before`).
- RULES `r` origin: the rules of its robots.txt. `Store.keep_rules`, `rules`; `rules`.
- CONTENT `d` digest of a content, or `d` `w` digest of bytes sent: the first page that had them.
  `Store.keep_original`, `original`.
- SKETCH `e` band of a sketch: the key of the first page that had it; `e` key: the sketch of this
  page and its URL. `NearDuplicates`, by `Store.keep_sketch`, `sketch`.
- COUNT `c` kind, name: a number: pages by host, by address, by domain. `Store.counts`.
- IDENTITY `m`: JSON: the format, the crawl's settings, the key of the fingerprints. Written when a
  run begins, read by `identity`; the same.
- NUMBERS `n`: JSON: the counters, the number of the run, the time. Written by `Store.commit`,
  read by `identity`; the same.
- MAIL `o` hub, number of the last one: some mail for another hub, until that hub has all of
  it. `Mailbox`, by `Store.mail_line`. The numbers of mail are in NUMBERS.
- ROBOTS_TASK `k` origin: a robots.txt that a host of ours is to fetch for a host of another hub.
  `Store.keep_robots_task`; read once by the next run (`robots_tasks`).
- VISIT `v` time, half a fingerprint: a page that is visited again at this time: its URL, and a
  `visitstate`. The status of the URL has the time too. `VisitRows`; `visit`.
- COMMAND `y` number: JSON: a command of the user that later runs obey (`crawl.keptcommands`).
  `Store.keep_command`, `commands`; `commands`.

A commit writes all changes of one batch, in rows of all kinds, or nothing. Once it has returned, a
kill of the process loses nothing of it. A power failure may lose the last commits: all commits
after some moment. So however a run ends, in the next one:

- each link that was queued or leased has a QUEUE row and a SEEN row, and is queued;
- each page of the cycle (RECRAWL) has either a VISIT row, or a QUEUE row with its state;
- each host with links has exactly one WAITING, DEFERRED or ACTIVE row, any other host has no such
  row;
- HOST, COUNT and NUMBERS rows agree with the links that have ended.

`tests/properties/test_frontier_properties.py` kills crawls right before and after commits.
"""
