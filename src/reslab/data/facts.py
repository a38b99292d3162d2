"""What one picture file is: decoded in full, measured, and its trouble named."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from reslab.data.picture import UNREADABLE, reason_of

__all__ = ["PictureFacts", "examine_picture"]

_ORIENTATION = 0x0112
_STARTS = {
    b"<!doctype": "a web page (HTML)",
    b"<html": "a web page (HTML)",
    b"<?xml": "XML",
    b"<svg": "SVG, which Pillow does not read",
    b"%pdf": "PDF",
    b"pk\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip file",
    b"{": "JSON",
    b"version https://git-lfs": "a Git LFS pointer; the picture itself was never fetched",
}


@dataclass(frozen=True, kw_only=True)
class PictureFacts:
    """One file: its trouble, if any, and what was seen on decoding it.

    `trouble` is "", "empty", "other_content" or "unreadable", and `reason` says more. `size` is
    (width, height) as stored.
    """

    path: str
    num_bytes: int
    sha256: str = ""
    trouble: str = ""
    reason: str = ""
    mode: str = ""
    size: tuple[int, int] = (0, 0)
    is_turned: bool = False
    is_misnamed: bool = False
    num_frames: int = 1


def examine_picture(root: Path, relative: str) -> PictureFacts:
    """Read, hash and decode one file in full; never raises for what is in the file."""
    path = root / relative
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        return PictureFacts(path=relative, num_bytes=0, trouble="unreadable", reason=reason)
    if not data:
        return PictureFacts(path=relative, num_bytes=0, trouble="empty", reason="0 bytes")
    return _decode(path, relative, data)


def _decode(path: Path, relative: str, data: bytes) -> PictureFacts:
    try:
        with Image.open(path) as image:
            kind, mode = image.format or "", image.mode
            image.load()
            return PictureFacts(
                path=relative,
                num_bytes=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                mode=mode,
                size=image.size,
                is_turned=image.getexif().get(_ORIENTATION, 1) not in (0, 1),
                is_misnamed=Image.registered_extensions().get(path.suffix.lower()) != kind,
                num_frames=getattr(image, "n_frames", 1),
            )
    except UNREADABLE as error:
        other = _other_content(data)
        return PictureFacts(
            path=relative,
            num_bytes=len(data),
            trouble="other_content" if other else "unreadable",
            reason=other or reason_of(error, path),
        )


def _other_content(data: bytes) -> str:
    start = data[:64].lstrip().lower()
    return next((what for mark, what in _STARTS.items() if start.startswith(mark)), "")
