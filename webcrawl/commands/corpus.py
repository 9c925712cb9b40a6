"""`scrapy corpus WARC... -o DIR`: tables and texts of the captures of WARC files."""

from webcrawl.commands.tool import tool_command

Command = tool_command(
    __name__,
    "Make a text corpus of WARC files: tables of captures and hosts, texts",
    extra="corpus",
)
