"""`scrapy corpus FILE_OR_FOLDER... -o DIR`: tables and texts of the captures of WARC files."""

from __future__ import annotations

import argparse
import re
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import duckdb

from webcrawl.base.wording import INTERRUPTED, SettingError, counted, is_utf8, printable
from webcrawl.config.languagemodel import codes_of, model_path
from webcrawl.parse.language import iso_639_3
from webcrawl.tools import command
from webcrawl.tools.corpus.corpus import CorpusError, Summary, is_made, make_corpus, plan_of
from webcrawl.tools.corpus.outputs import Filters, Texts
from webcrawl.tools.progress import bar_of_bytes
from webcrawl.tools.stored import NoStoreError, named_files

WRONG = 2  # exit code for files, folders and options that cannot be used
_TEXTS = {"all": ("text",), "main": ("main_text",), "both": ("text", "main_text")}
_SIGNAL = re.compile(r"noindex|noarchive|nofollow|tdm-reservation|[A-Za-z0-9_-]+=[A-Za-z0-9_-]+")


class Command(command.Command):
    """Exit code 1 if a record cannot be read or the corpus cannot be written."""

    arguments = "<WARC_FILE, FOLDER or URL> [...] -o DIR [options]"
    about = (
        "writes a Parquet file of captures for each WARC file, and one of hosts, into DIR. Reads"
        " files of any writer, or all of a folder, also in an object store: s3://bucket/prefix. A"
        " command that was stopped goes on where it was if it is given again. docs/corpus.md"
        " describes the columns."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add = parser.add_argument
        add("-o", "--output", metavar="DIR", help="where the corpus is written")
        add(
            "--text",
            choices=_TEXTS,
            help="the texts of pages, too; with all no main text is read, which is faster",
        )
        add("--format", choices=("parquet", "jsonl", "wet"), help="of the texts (columns)")
        add("--crawl", metavar="NAME", default="", help="the column crawl (what the file says)")
        add("--log", metavar="DIR", action="append", default=[], help="a folder of crawl logs,"
            " beside those of the WARC files")  # fmt: skip
        add("--language", metavar="CODES", default="", help="only pages in these: por,eng")
        add("--min-words", metavar="N", type=int, default=0, help="only pages of N words or more")
        add("--no-duplicates", action="store_true", help="no near-duplicates and no revisits")
        add("--superseded", action=argparse.BooleanOptionalAction, default=False,
            help="answers that a later one of the same visit replaced, too (no)")  # fmt: skip
        add("--without", metavar="SIGNAL", action="append", default=[], help="no page whose owner"
            " says so: noindex, noarchive, nofollow, tdm-reservation, train-ai=n")  # fmt: skip

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args or not opts.output:
            raise command.WrongUse("give WARC files, or their folder, and -o DIR")
        texts, filters = _texts(opts), _filters(opts)
        folder = Path(opts.output)
        try:
            warcs = [file for each in args for file in named_files(each, ".warc.gz")]
            plan = plan_of(warcs, opts.log, opts.crawl, texts, filters, self._model())
            for name in (opts.output, *plan.logs, *(path for path, _ in plan.warcs)):
                if not is_utf8(name):
                    raise CorpusError(f"{name}: DuckDB opens no file whose path is not in UTF-8")
            has_been_made = is_made(plan, folder)
            if not has_been_made:
                total = sum(size for _, size in plan.warcs)
                with bar_of_bytes(counted(len(warcs), "WARC file"), total) as progress:
                    summary = make_corpus(plan, folder, progress)
        except (CorpusError, NoStoreError, SettingError) as error:
            self.fail(str(error), WRONG)
        except BrokenProcessPool:
            self.fail("a process was ended from outside; the same command goes on", 1)
        except duckdb.Error as error:
            self.fail(str(error).partition("\n")[0], 1)
        except OSError as error:
            self.fail(f"{error.filename or folder}: {error.strerror}", 1)
        except KeyboardInterrupt:
            self.fail("interrupted; the same command goes on", INTERRUPTED)
        else:
            if has_been_made:
                print(f"{folder} has this corpus already")
            else:
                self._report(folder, summary)

    def _model(self) -> str:
        """The file of LANGUAGE_MODEL, which can be loaded. SettingError."""
        assert self.settings is not None
        model = model_path(self.settings)
        if model:
            codes_of(model)
        return model

    def _report(self, folder: Path, summary: Summary) -> None:
        counts = summary.counts
        for problem in summary.problems:
            print(printable(problem), file=sys.stderr)
        if counts.broken:
            broken = counted(counts.broken, "broken record")
            self.fail(f"{broken} left out; {len(summary.problems)} named above", 1)
        print(
            f"{folder}: {counted(summary.written, 'capture')} of {counts.captures:,},"
            f" {counted(summary.pages, 'page')} with text;"
            f" {counted(summary.unresolved, 'revisit')} without original,"
            f" {counted(counts.others, 'record')} of other kinds"
        )


def _texts(opts: argparse.Namespace) -> Texts:
    if opts.format and not opts.text:
        raise command.WrongUse("--format is of the texts: give --text all, main or both")
    if opts.format == "wet" and opts.text == "both":
        raise command.WrongUse("a WET record has one text: give --text all or main")
    return Texts(_TEXTS.get(opts.text, ()), opts.format or "parquet")


def _filters(opts: argparse.Namespace) -> Filters:
    for signal in opts.without:
        if not _SIGNAL.fullmatch(signal):
            text = "is not a signal, such as noindex or train-ai=n"
            raise command.WrongUse(f"--without {printable(signal)} {text}")
    named = filter(None, opts.language.replace(" ", "").split(","))
    languages = tuple(sorted({*map(iso_639_3, named)}))
    for code in languages:
        if not re.fullmatch("[a-z]{3}", code):
            text = "is not ISO 639-1 or -3, such as pt or por"
            raise command.WrongUse(f"--language {printable(code)} {text}")
    if opts.min_words < 0:
        raise command.WrongUse("--min-words is negative")
    without = tuple(sorted(opts.without))
    return Filters(opts.superseded, languages, opts.min_words, opts.no_duplicates, without)
