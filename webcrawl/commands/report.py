"""`scrapy report DIR`: what a crawl collected and what it missed, as a page, CSV files and JSON."""

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Report on a running, finished or killed crawl")
