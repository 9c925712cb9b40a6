"""All state of a crawl: which URLs were seen, which wait, and which host may be asked when.

The frontier takes links in, gives leases out, and takes them back with outcomes. It does no network
I/O, knows no Scrapy and reads no clock: `now` (monotonic seconds) comes from the caller.

Read in this order
    base          the interface, and Policy: the settings that the frontier follows
    lease         the values that cross it: Link, Lease, outcomes
    core          the way of a URL: put, acquire, release
    candidates    the tests of a link: limits, URL-seen, caps, IP cap, robots.txt; drops
    disposition   what an outcome means for its host: clocks, addresses, rules, back-off
    distributor   where each host belongs, and its next step
    workbench     the hosts in memory, by rank, clock and IP address
    host, queue   one host, and its links in order
    orderings, caps, politeness, counters        which URL is best, limits, delays, numbers
    backlog       links that are kept for a later try
    contents, seen                               the content-seen and the URL-seen test
    store         what a crawl keeps, and how: the interface, and MemoryStore
    memory, disk/, shared/                       the three implementations of `base.Frontier`
    outlinks, urlcache, outbox                   from a page's URLs to `put`

The life of a host. `distributor.settle` chooses the state after each change.

    state      where the host is                         it leaves when
    IDLE       no link, or its robots.txt is elsewhere   a link or the robots.txt arrives
    WAITING    in the store: the workbench is full       a place is free and it is the best
    DEFERRED   in the store: all its links are kept      their time has come, or a new link arrives
    SNOOZED    on the workbench: its clock is not due    the clock is due
    READY      on the workbench, in a lane               it is popped, or a better link moves it up
    PARKED     as READY, but its IP address is busy      the address is free: READY
    LEASED     one request to it is under way            release: settled anew

                 settle ──► IDLE, WAITING, DEFERRED, SNOOZED ──► settle
                   │
                   └──────► READY ──► LEASED ──► release ──► settle
                             ▲  │
                             │  ▼
                            PARKED

A host that fails is retired until a time (`Host.retired_until`), in any state. If an answer was
definite (no such name), its links are dropped as they come up. If the failure may pass, they are
kept, and the host is deferred for longer each time.

The life of a lease
    acquire   gives one lease per host, and one per IP address. `Lease.step` is, in this order:
              RESOLVE   look up the address; before the first request, and when it has expired
              ROBOTS    fetch a robots.txt; before the first page of an origin, and each 24 hours
              HEAD      with HEAD_FIRST only
              PAGE      fetch the page
              PAGE leases are in the lane PAGES, all others in the lane ADMISSIONS.
    outcome   exactly one, of the caller: Resolved, Unresolved | RobotsFetched, RobotsMoved,
              RobotsUnreachable | Fetched, Failed, Dropped | Returned (not carried out)
    release   takes both. Clocks start from the answer; the link is finished, retried, kept or
              dropped; the outlinks of a page are put. Then the host is settled.

Glossary
    admission        the steps before a page: RESOLVE, ROBOTS, HEAD
    candidates       links on their way in and out of line; "funnel" is the same as statistics
    cash, credit     what pages give to a URL in line with FRONTIER_ORDER opic, and its record
    content-seen     test: did an earlier page have the same content?
    disposition      what an outcome means for a host
    distributor      fills the bounded workbench with the best hosts of the store
    epoch            of a host: grows when its kept links become ordinary links again
    home             of a robots task: the host whose robots.txt it is
    host             the host part of a URL; a politeness clock, a queue, at most one lease
    kept link        failed for now; behind all others of its host, until its time or the next run
    lane             PAGES or ADMISSIONS: each has its own order, limit and concurrency
    lease            the right to one request, until it is released
    level            1 plus the words of the URL's path, 10 at most
    number           a link's place in the order of arrival over all hosts
    origin           scheme+authority: a robots.txt holds for one
    outlink          a link found on a page
    place            of the target: an answer counts towards CLOSESPIDER_PAGECOUNT only with one.
                     Of a host: room on the workbench. Of a link: (priority, number) in its queue
    priority, rank   a link's in its host's queue; a host's among the ready hosts. Lower is earlier
    registered domain   the part of a name that is registered: example.co.uk
    retired          a host that is given up until a time
    robots task      a robots.txt to fetch; after a redirect another host's lease carries it out
    seed             a link that no page led to
    snoozed          a host whose clock is not due
    spare            a PAGE lease beyond the target's places, beside slow pages at its end
    supply           pages that admitted hosts can give within SUPPLY_S seconds
    target           CLOSESPIDER_PAGECOUNT
    URL-seen         test: was this URL ever put?
    workbench        the hosts in memory and their order (BUbiNG's term)
"""
