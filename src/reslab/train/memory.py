"""How the C library hands memory back: not after every step."""

import contextlib
import ctypes
import functools

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST = 2**30


@functools.cache
def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory for the next step; True where that worked.

    Activations of a step are blocks of megabytes, which glibc gives back to the system when freed
    and asks for again in the next step, one page fault every 4 KiB. Keeping them made a ResNet-20
    step at batch 128 take 8 % less time on 2 cores (`benchmarks/RESULTS.md`) and changes no bit.
    Other C libraries have no such switch: nothing happens there.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, _LARGEST))
    return False
