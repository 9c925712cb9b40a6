"""All state of a crawl: which URLs were seen, which are queued, and when each host may be asked.

The frontier takes links in, gives leases out, and takes them back with outcomes. It does no network
I/O, knows no Scrapy and reads no clock: `now` (monotonic seconds) comes from the caller.

Read in this order
    base          the interface, and Policy: the settings that the frontier follows
    lease         the values that its calls take and return: Link, Lease, outcomes
    core          the way of a URL: put, acquire, release
    candidates    tests each link: limits, URL-seen, caps, IP cap, robots.txt; drops links
    outcomes      the effect of an outcome on its URL: done, asked again, kept, dropped
    disposition   the effect of an outcome on its host: clocks, addresses, rules, back-off
    state         what these parts share
    distributor   decides the state of each host, and its next step
    workbench     the hosts in memory, by rank, clock and IP address
    host          one host; disk/queue has its links in order
    orderings, caps, politeness, counters        which URL is best, limits, delays, numbers
    endings       notes the end of each URL's turn, for `scrapy explain` and the crawl log
    overview                                     the hosts, for a reader of a running crawl
    backlog       links that are kept for a later try
    visits, visitstate, revisit                  pages that are visited again, and when
    trust                                        whose sitemaps' dates and whose 304s are trusted
    sitemapnames, listed                         which sitemaps are read; what only they gave
    requisites                                   the files that a page shows
    languages                                    which hosts have pages in wanted languages
    contents, nearduplicates                     the content-seen test; the same by nearly a text
    buckets       which hub of the crawl has a host
    mailbox       links and robots.txt that concern hosts of another hub
    store         values of the store, which is disk/store
    disk/                                        the implementation of `base.Frontier`; that of
                                                 one for several processes is `webcrawl.hub`
    outlinks, urlcache, outbox                   make links of a page's URLs, and pass them to `put`

The life of a host. `distributor.place_host` chooses the state after each change.

    state      where the host is                         it leaves when
    IDLE       no link, or its robots.txt is elsewhere   a link or the robots.txt arrives
    WAITING    in the store: the workbench is full       a place is free and it is the best
    DEFERRED   in the store: all its links are kept      their time has come, or a new link arrives
    SNOOZED    on the workbench: its clock is not due    the clock is due
    READY      on the workbench, in a lane               it is popped, or a better link moves it up
    PARKED     as READY, but its IP address is busy      the address is free: READY
    LEASED     one request to it is under way            it is released: `place_host` runs again

             place_host ──► IDLE, WAITING, DEFERRED, SNOOZED ──► place_host
                   │
                   └──────► READY ──► LEASED ──► release ──► place_host
                             ▲  │
                             │  ▼
                            PARKED

A host that fails is retired until a time (`Host.retired_until`), in any state. If the answer was
definite (no such name), each of its links is dropped when it is the next in its queue. If the
failure may pass, the links are kept, and the host is deferred for longer each time.

The life of a lease
    acquire   gives one lease per host, and one per IP address. `Lease.step` is, in this order:
              RESOLVE   look up the address; before the first request, and when it has expired
              ROBOTS    fetch a robots.txt; before the first page of an origin, and each 24 hours
              HEAD      with HEAD_FIRST only
              SITEMAP   fetch the URL, which is a sitemap
              REQUISITE fetch the URL, which is a file that a page shows
              PAGE      fetch the page
              PAGE leases are in the lane PAGES, all others in the lane ADMISSIONS; but those of
              a host whose next link is a requisite that goes before pages in REQUISITES.
    outcome   exactly one, made by the caller: Resolved, Unresolved | RobotsFetched, RobotsMoved,
              RobotsUnreachable | Fetched, Failed, Dropped | Returned (not carried out)
    release   takes the lease and its outcome. Clocks start from the answer; the link is finished,
              retried, kept or dropped; the outlinks of a page are queued. Then `place_host` runs.

Glossary
    admission        the steps beside the pages: RESOLVE, ROBOTS, HEAD, SITEMAP, REQUISITE
    candidates       links that enter or leave a queue; "funnel" is the statistic of their tests
    cash, credit     the importance that pages give to a queued URL with FRONTIER_ORDER opic, and
                     its record
    content-seen     test: did an earlier page have the same content?
    disposition      the effect of an outcome on its host
    distributor      fills the bounded workbench with the best hosts of the store
    foreign          of another hub, in a crawl on several machines
    epoch            of a host: grows when its kept links become ordinary links again
    home             of a robots task: the host that the rules are for
    host             the host part of a URL; has a politeness clock, a queue, at most one lease
    kept link        a link that failed and is tried again later; queued behind all other links of
                     its host, until the time of its next try or the next run
    lane             PAGES, ADMISSIONS or REQUISITES: each has its own order, limit and
                     concurrency
    lease            the right to one request, until it is released
    level            1 plus the words of the URL's path, 10 at most
    number           a link's place in the order of arrival over all hosts
    origin           scheme+authority: each origin has its own robots.txt
    outlink          a link found on a page
    place            of a host: room on the workbench. Of a link: (priority, number) in its queue
    priority, rank   order of a link in its host's queue; order of a host among the ready hosts.
                     Lower is earlier
    registered domain   the part of a name that is registered: example.co.uk
    retired          a host that is given up until a time
    robots task      a robots.txt to fetch; after a redirect another host's lease carries it out
    seed             a link from the seed list, not from a page
    snoozed          a host whose clock is not due
    supply           pages that admitted hosts can give within SUPPLY_S seconds
    target           CLOSESPIDER_PAGECOUNT
    URL-seen         test: was this URL given to `put` before?
    visit            a request for a page that was fetched before (RECRAWL)
    workbench        the hosts in memory and their order (BUbiNG's term)
"""
