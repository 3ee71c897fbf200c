"""What was read of a store's runs, kept in a SQLite file beside them: never needed, never trusted.

The run folders are the truth. A row says what one of them said when it had a certain stamp; it is
believed while the folder has that stamp and the row has the digest it was written with. Anything
else, rows of another checkout's code, of a copied store or with a flipped bit, is as if it were not
there. So whatever happens to the file costs time and changes no answer.
"""

from __future__ import annotations

import functools
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path

from results.folders import RunFolder

_NAME, _ENDING = "index-", ".sqlite3"
# An index that no checkout has written to for so long is nobody's.
_OLD_S = 30 * 86_400
Keep = Callable[..., None]
# Fewer runs are read as fast, and a small store stays as it is.
LEAST_RUNS = 32
# Another process writes for less than that; one that holds the file for longer was stopped.
_WAIT_S = 2.0
DIGEST_BYTES = 16
KINDS = ("summaries", "times")
_SCHEMA = "".join(
    f"CREATE TABLE IF NOT EXISTS {kind} (run BLOB PRIMARY KEY, stamp BLOB, said BLOB, digest BLOB);"
    for kind in KINDS
)
_SCHEMA += "CREATE TABLE IF NOT EXISTS texts (digest BLOB PRIMARY KEY, text BLOB);"
# What makes rows; with any other code in these, or in what they import of ours, rows say nothing.
_MAKERS = ("results/summary.py", "results/timed_runs.py")
_IMPORT = re.compile(r"^\s*from ((?:impls|results)[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
# A broken file may ask for memory without end, or be told of in words that are no text.
_FAILURES = (sqlite3.Error, OSError, ValueError, OverflowError, MemoryError)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# Errors that say nothing of the file: another process writes, or there is no room.
_LEFT_ALONE = (*_BUSY, sqlite3.SQLITE_FULL)


class Index:
    """The rows of one store, by kind, one of `KINDS`, and run.

    Nothing of it raises: where the file cannot be used, nothing is known and nothing is kept, and
    `trouble` says why.
    """

    def __init__(self, store: Path, runs: int) -> None:
        """The index of a store of so many runs; of a few there is none."""
        self._file = index_file(store)
        self._is_used = runs >= LEAST_RUNS
        self._is_broken = False
        self._wait_s = _WAIT_S
        self.trouble: str | None = None

    def known(self, kind: str, folders: Iterable[RunFolder]) -> dict[bytes, bytes]:
        """What the runs said, of those that are as they were then, by `RunFolder.key`."""
        stamps = {folder.key: folder.stamp.encode() for folder in folders}
        return {
            run: said
            for run, stamp, said, digest in self._rows(kind, "run, stamp, said, digest")
            if stamps.get(run) == stamp and digest == _digest(kind.encode(), run, stamp, said)
        }

    def texts(self) -> dict[bytes, str]:
        """The texts that rows refer to, by digest."""
        rows = self._rows("texts", "digest, text")
        return {digest: text.decode() for digest, text in rows if digest == _digest(text)}

    @contextmanager
    def keeping(self, kind: str, at_once: int) -> Iterator[Keep]:
        """What keeps a run's words, so many at once, and the rest in the end, however it comes."""
        said: dict[RunFolder, bytes] = {}
        texts: set[str] = set()

        def flush() -> None:
            self._keep(kind, said, texts)
            said.clear()
            texts.clear()

        def keep(folder: RunFolder, words: bytes, referred: Iterable[str] = ()) -> None:
            said[folder] = words
            texts.update(referred)
            if len(said) >= at_once:
                flush()

        try:
            yield keep
        finally:
            flush()

    def forget(self, kind: str, folders: Iterable[RunFolder]) -> None:
        """Take away the rows of runs that are not among these any more."""
        there = {folder.key for folder in folders}
        gone = [(run,) for (run,) in self._rows(kind, "run") if run not in there]
        if gone:
            self._write((f"DELETE FROM {kind} WHERE run = ?", gone))

    def _keep(self, kind: str, said: Mapping[RunFolder, bytes], texts: Iterable[str]) -> None:
        """Add what runs said, in place of what they said before; all of it or nothing."""
        now_ns = time.time_ns()
        rows = []
        for folder, words in said.items():
            if folder.is_settled(now_ns):
                run, stamp = folder.key, folder.stamp.encode()
                rows.append((run, stamp, words, _digest(kind.encode(), run, stamp, words)))
        found = [(text_digest(text), text.encode()) for text in texts]
        if rows and self._is_used:
            self._write(
                ("INSERT OR REPLACE INTO texts VALUES (?, ?)", found),
                (f"INSERT OR REPLACE INTO {kind} VALUES (?, ?, ?, ?)", rows),
            )

    def _rows(self, table: str, columns: str) -> list[tuple[bytes, ...]]:
        """The rows of a table, of those that hold bytes as ours do."""
        if not self._is_used or not self._file.exists():
            return []
        try:
            with closing(self._open()) as connection:
                rows = connection.execute(f"SELECT {columns} FROM {table}").fetchall()
        except _FAILURES as error:
            self._heed(error)
            return []
        return [row for row in rows if all(type(value) is bytes for value in row)]

    def _write(self, *statements: tuple[str, list[tuple]]) -> None:
        for _ in range(2):
            try:
                if self._is_broken:
                    self._delete()
                if not self._file.exists():
                    _delete_old(self._file.parent)
                with closing(self._open()) as connection:
                    connection.executescript(_SCHEMA)
                    connection.execute("BEGIN IMMEDIATE")
                    for statement, values in statements:
                        connection.executemany(statement, values)
                    connection.execute("COMMIT")
                self.trouble, self._wait_s = None, _WAIT_S
                return
            except _FAILURES as error:
                self._heed(error)
                self.trouble = f"{self._file}: {error}"
                if not self._is_broken:
                    return

    def _heed(self, error: Exception) -> None:
        """Make the file anew where it may be garbage or another program's; wait for it once."""
        code = getattr(error, "sqlite_errorcode", -1) & 0xFF
        # Tables that are not there yet, another process is about to make.
        self._is_broken = code not in _LEFT_ALONE and "no such table" not in str(error)
        if code in _BUSY:
            self._wait_s = 0.0

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._file, timeout=self._wait_s, isolation_level=None)
        # What a power cut leaves half-written its digests tell: no write need wait for the disk.
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def _delete(self) -> None:
        """Make room for a new file; one that is a folder or cannot be deleted stays."""
        for ending in ("-journal", "-wal", "-shm", ""):
            Path(f"{self._file}{ending}").unlink(missing_ok=True)
        self._is_broken = False


def index_file(store: Path) -> Path:
    """The index of a store for this code: another checkout that reads otherwise has its own."""
    return store / f"{_NAME}{_code().hex()[:8]}{_ENDING}"


def _delete_old(store: Path) -> None:
    for file in store.glob(f"{_NAME}*{_ENDING}"):
        if file.stat().st_mtime < time.time() - _OLD_S:
            file.unlink(missing_ok=True)


def text_digest(text: str) -> bytes:
    """What a row refers to a text by."""
    return _digest(text.encode())


def _digest(*parts: bytes) -> bytes:
    """Of the parts, their lengths, and the code that made them."""
    whole = blake2b(_code(), digest_size=DIGEST_BYTES)
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()


@functools.cache
def _code() -> bytes:
    checkout = Path(__file__).parents[1]
    whole = blake2b(digest_size=DIGEST_BYTES)
    for source in sorted(sources(checkout)):
        whole.update((checkout / source).read_bytes())
    return whole.digest()


def sources(checkout: Path) -> set[str]:
    """The files that what makes rows is written in, by what each of them imports."""
    found: set[str] = set()
    left = set(_MAKERS)
    while left:
        source = left.pop()
        found.add(source)
        for package, names in _IMPORT.findall((checkout / source).read_text(encoding="utf-8")):
            modules = [package, *(f"{package}.{name}" for name in re.findall(r"\w+", names))]
            files = {f"{module.replace('.', '/')}.py" for module in modules}
            left |= {file for file in files - found if (checkout / file).is_file()}
    return found
