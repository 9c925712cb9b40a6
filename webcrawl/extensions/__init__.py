"""Scrapy extensions: thin classes that connect signals and call the core.

- Output: `statslines`, `report`.
- Several processes: `processes` (in the first process), then `worker` (in each of the others).
- Before the first request: `startcheck`.
- Memory and CPU: `allocator`, `garbage`.
- In place of Scrapy's own, each with a difference: `feeds`, `closespider`, `spiderstate`,
  `remotecontrol`.
"""
