"""Writing without loss: atomic files, checksums, JSON lines, one process a folder.

Everything reslab writes goes through here: into a temporary file beside the target, fsync, rename.
No torch.
"""

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from reslab.errors import DataError, DiskError, RunError

__all__ = [
    "append_jsonl",
    "locked",
    "read_json",
    "read_jsonl",
    "sha256",
    "write_atomic",
    "write_json",
    "write_jsonl",
    "write_text",
]


@contextlib.contextmanager
def write_atomic(path: Path) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when the block ends well, and leaves no trace otherwise.

    Raises DiskError (naming the path and the reason) when the disk refuses; whatever was at `path`
    before is then still there, whole.
    """
    path = Path(path)
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"
        )
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        if isinstance(error, DiskError):
            raise
        raise DiskError(
            f"cannot write {path}: {error.strerror or error}",
            hint=f"{_disk_advice(error)}; what was there before is untouched.",
        ) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _disk_advice(error: OSError) -> str:
    is_full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None))
    return "Free some space or choose another folder" if is_full else "Choose another folder"


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    # The rename itself must reach the disk too; some platforms cannot open a folder for that.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    with write_atomic(path) as file:
        file.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; DataError names the path when it is missing or not JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path} as JSON ({error})") from error


def append_jsonl(path: Path, record: dict[str, Any]) -> None:
    """Append one record as a line of JSON and hand it to the operating system at once."""
    line = json.dumps(record, ensure_ascii=False) + "\n"
    try:
        with Path(path).open("ab", buffering=0) as file:
            file.write(line.encode())
    except OSError as error:
        raise DiskError(f"cannot write {path}: {error.strerror or error}") from error


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """All whole records of the file; a last line cut by a kill is left out."""
    if not Path(path).exists():
        return []
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    records = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            records.append(json.loads(line))
        except ValueError as error:
            if number == len(lines):
                break
            raise DataError(f"{path}, line {number}, is not JSON ({error})") from error
    return records


def write_jsonl(path: Path, records: list[dict[str, Any]]) -> None:
    """Replace the file by these records, atomically."""
    write_text(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records))


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def locked(folder: Path, *, wait_seconds: float = 0) -> Iterator[None]:
    """Hold a folder for this process; RunError says so when another process has it."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    lock = FileLock(Path(folder) / ".lock")
    try:
        lock.acquire(timeout=wait_seconds)
    except Timeout:
        raise RunError(
            f"{folder} is in use by another reslab process",
            hint="Wait until it ends or choose another folder.",
        ) from None
    except OSError as error:
        raise DiskError(f"cannot write in {folder}: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()
