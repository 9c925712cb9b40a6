"""`scrapy sweep`: several crawls one after the other, and their figures.

- `sweeps`: the experiments, their CSV files and their figures.
- `watching`: runs one crawl in a process of its own, and samples it.
- `plots`: draws figures as SVG.
"""
