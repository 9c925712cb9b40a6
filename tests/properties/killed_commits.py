"""`python -m tests.properties.killed_commits FOLDER SEED KILLS`: commits killed at any moment.

One process after the other opens a database and commits to it until it is killed, possibly while it
opens the database or writes a table. Each finds every commit that has returned in the one before,
and at most one more, complete. Prints the number of commits. Forks before RocksDB has any thread.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from itertools import count
from pathlib import Path
from random import Random
from struct import Struct

from webcrawl.frontier.disk import database
from webcrawl.frontier.disk.store import Store

SLOTS = 40
LONGEST_S = 0.03
NUMBER = Struct(">Q")


def main(folder: Path, seed: int, kills: int) -> int:
    random = Random(seed)
    returned = 0
    for _ in range(kills):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            try:
                commit_on(folder, returned, writing)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(writing)
        first = os.read(reading, NUMBER.size) if random.random() < 0.5 else b""
        time.sleep(random.random() * LONGEST_S)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return 1
        with open(reading, "rb") as pipe:
            numbers = first + pipe.read()
        if numbers:
            (returned,) = NUMBER.unpack(numbers[-NUMBER.size :])
    print(returned)
    return 0


def commit_on(folder: Path, returned: int, writing: int) -> None:
    database._WRITE_BUFFER_BYTES = 64 << 10  # so that tables are written often
    db = Store(folder)._db
    row = db.get(b"number")
    number = NUMBER.unpack(row)[0] if row else 0
    assert returned <= number <= returned + 1, f"{returned} have returned, {number} are there"
    for before in range(max(1, number - SLOTS + 1), number + 1):
        rows = {db.get(b"%s%d" % (side, before % SLOTS)) for side in (b"a", b"b")}
        assert rows == {content(before)}, f"commit {before} is incomplete"
    for following in count(number + 1):
        for side in (b"a", b"b"):
            db.put(b"%s%d" % (side, following % SLOTS), content(following))
        db.put(b"number", NUMBER.pack(following))
        db.commit()
        os.write(writing, NUMBER.pack(following))


def content(number: int) -> bytes:
    return Random(number).randbytes(1000)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
