"""`scrapy warcrecover DIR`: finishes the WARC files of a killed crawl (`warc.recovery`)."""

from __future__ import annotations

import argparse
from pathlib import Path

from webcrawl.base.textfile import named_folder
from webcrawl.tools import command
from webcrawl.warc.files import open_files
from webcrawl.warc.recovery import recover


class Command(command.Command):
    """Says what it did, and which files it left. Exit code 1 if a folder cannot be changed."""

    arguments = "<DIR> [DIR ...]"
    about = (
        "in DIR (WARC_DIR), as the next start of a crawl would: cuts each file *.warc.gz.open"
        " after its last whole record, writes its index and renames it. Files of a running"
        " crawl are not changed."
    )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args:
            raise command.WrongUse("give the folder of the WARC files (WARC_DIR)")
        for folder in [*map(named_folder, args)]:
            try:
                recovered = recover(folder)
            except OSError as error:
                self.fail(f"{error.filename or folder}: {error.strerror or error}", 1)
                continue
            for each in recovered:
                print(each)
            left = open_files(folder)
            for path in left:
                print(f"Left {path}: {_reason(path)}")
            if not recovered and not left:
                print(f"{folder} has no files of a killed crawl")


def _reason(path: Path) -> str:
    if path.with_suffix("").exists():
        return f"{path.with_suffix('').name} exists too; remove one of both"
    return "a running crawl writes it, or another program gave it its name"
