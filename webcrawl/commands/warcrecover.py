"""`scrapy warcrecover DIR`: finishes the WARC files of a killed crawl."""

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Finish the WARC files of a killed crawl that will not be resumed")
