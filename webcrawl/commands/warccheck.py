"""`scrapy warccheck FILE...`: prints the problems of WARC files, one line per problem."""

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Check WARC files against WARC 1.1 and HTTP")
