"""`scrapy frontier JOBDIR`: a summary of a crawl's frontier, also while the crawl runs."""

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Show the state of the frontier of a crawl")
