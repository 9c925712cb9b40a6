"""Settings: their kinds, the checks before a crawl, and the parts built from them.

In reading order:

- `kinds`: the kinds of values, and `SettingError`.
- `table`: one row per setting; `read` gives a setting's value with its type.
- `rulesfile`: reads the file of RULES.
- `fetch`, `build`: build the core's parts from settings. `cluster`: those of a hub and a fetcher.
- `joining`: makes a process a fetcher, or one of several hubs, before its crawl.
- `names`: finds misspelt names of settings and spider arguments.
- `components`: the crawler's own parts among Scrapy's components, and what is lost without each.
- `ignored`: Scrapy's settings without effect here.
- `check`: the checks before a crawl.
- `addon`: the defaults, for any other Scrapy project.
"""
