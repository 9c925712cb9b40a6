"""`scrapy wacz FILE_OR_FOLDER... -o FILE.wacz`: the WARC files of a crawl as a WACZ."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from pathlib import Path

from webcrawl.base.wording import INTERRUPTED, counted, printable, size_text
from webcrawl.config.kinds import SIZE, parse_size
from webcrawl.tools import command
from webcrawl.tools.progress import bar_of_bytes
from webcrawl.tools.stored import NoStoreError, size_of
from webcrawl.tools.wacz.captures import DamagedError
from webcrawl.tools.wacz.parts import ENDING, LOST_SHOWN, Result, WaczError, make_wacz, warc_files
from webcrawl.warc.earlierlines import EarlierError


class Command(command.Command):
    """Reads WARC files and their indexes. Changes none of them."""

    arguments = "<WARC_FILE, FOLDER or URL> [...] -o FILE.wacz [options]"
    about = (
        "of one or more folders (WARC_DIR, or the URL of an ARCHIVE_STORE) or files *.warc.gz,"
        " with their indexes, and a list of their pages. The crawl may run, have ended or have"
        " been killed; of a killed crawl `scrapy warcrecover` finishes the last files first."
        " ReplayWeb.page, pywb and py-wacz read a WACZ."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add = parser.add_argument
        add("-o", "--output", metavar="FILE.wacz", help="the file to write or replace")
        add("--text", action="store_true", help="add the text of the pages, to search in it")
        add(
            "--max-size",
            metavar="SIZE",
            default="0",
            help="write parts FILE-001.wacz ... of at most SIZE bytes (4G), and FILE.json, which"
            " opens them as one",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args:
            raise command.WrongUse("give WARC files, or their folder")
        if not opts.output or not opts.output.endswith(ENDING):
            raise command.WrongUse(f"give a file to write that ends in {ENDING}: -o crawl{ENDING}")
        if not SIZE.fits(opts.max_size):
            raise command.WrongUse(f"--max-size {opts.max_size}: give {SIZE.allowed}")
        size_max = parse_size(opts.max_size)
        try:
            warcs, written = warc_files(args)
            for each in written:
                print(f"{each} is left out: a running crawl writes it", file=sys.stderr)
            size_bytes = sum(map(size_of, warcs))
            output = Path(opts.output)
            with bar_of_bytes(counted(len(warcs), "WARC file"), 2 * size_bytes) as progress:
                result = make_wacz(warcs, output, size_max, has_text=opts.text, progress=progress)
        except (WaczError, NoStoreError) as error:
            self.fail(error, 2)
        except (DamagedError, EarlierError) as error:
            self.fail(error, 1)
        except OSError as error:
            where = error.filename or f"{opts.output} cannot be written"
            self.fail(f"{where}: {error.strerror or error}", 1)
        except sqlite3.Error as error:  # a full disk
            self.fail(f"{opts.output} cannot be written: {error}", 1)
        except KeyboardInterrupt:
            self.fail(f"interrupted; {opts.output} was not written", INTERRUPTED)
        else:
            _report(result, size_max)


def _report(result: Result, size_max: int) -> None:
    for part in result.parts:
        captures, pages = part.written
        print(
            f"{part.path}: {counted(part.warcs, 'WARC file')}, {counted(captures, 'capture')},"
            f" {counted(pages, 'page')}, {size_text(part.size_bytes)}"
        )
        if size_max and part.size_bytes > size_max:
            print(
                f"{part.path} is larger than --max-size: one WARC file is (WARC_MAX_SIZE)",
                file=sys.stderr,
            )
    if result.collection is not None:
        print(f"{result.collection}: opens the {len(result.parts)} parts as one")
    if result.lost:
        print(
            f"{counted(result.lost, 'revisit')} will not replay: the original is in none of these"
            " files. Give the earlier WARC files too.",
            file=sys.stderr,
        )
        for lost in result.some_lost:
            original = f"{lost.original_url} of {lost.original_time}"
            print(printable(f"  {lost.url} of {lost.time}: {original}"), file=sys.stderr)
        if result.lost > LOST_SHOWN:
            print("  ...", file=sys.stderr)
