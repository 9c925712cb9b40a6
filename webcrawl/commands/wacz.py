"""`scrapy wacz FILE_OR_FOLDER... -o FILE.wacz`: the WARC files of a crawl as a WACZ."""

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Make a WACZ, one file to hand on, of the WARC files of a crawl")
