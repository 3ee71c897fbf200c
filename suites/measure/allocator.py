"""The allocator's policy: steady temporaries, set before the first tensor, named in the run."""

from __future__ import annotations

import ctypes
import mmap
import platform

# glibc's malloc.h. Default glibc hands large temporaries back to the kernel and zeroes them anew at
# every call, or not, depending on what the process allocated before: a factor of 2 to 10.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_POLICY = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 << 20))

# Which sets of a cache small pages share is chance, and stays so for the life of a process:
# launches differ by several per cent. Pages of 2 MiB hold a score matrix whole. Below the trim
# threshold, so that the heap keeps it; it is address space, memory only where it is used.
HUGE_BYTES = 1536 << 20

NOT_GLIBC = "default (not glibc)"
STEADY = "glibc mmap_max=0 trim_threshold=2147483647 top_pad=67108864"
HUGE = f" huge_pages={HUGE_BYTES}"

_policy = "default"


def make_steady() -> str:
    """Tell glibc to keep freed memory, in huge pages; → the policy, for the fingerprint.

    Call it before the first tensor; a second call changes nothing. Elsewhere than on glibc nothing
    is changed.
    """
    global _policy
    if _policy.startswith("glibc"):
        return _policy
    if platform.libc_ver()[0] != "glibc":
        _policy = NOT_GLIBC
        return _policy
    libc = ctypes.CDLL(None)
    libc.mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    accepted = [libc.mallopt(parameter, value) == 1 for parameter, value in _POLICY]
    _policy = STEADY if all(accepted) else "glibc, mallopt refused"
    if all(accepted) and _grow_in_huge_pages(libc):
        _policy += HUGE
    return _policy


def policy() -> str:
    """The policy now: "default" until `make_steady` is called."""
    return _policy


def _grow_in_huge_pages(libc: ctypes.CDLL) -> bool:
    """Grow the heap once, untouched, and ask for huge pages there; → whether the kernel agreed."""
    libc.malloc.argtypes, libc.malloc.restype = (ctypes.c_size_t,), ctypes.c_void_p
    libc.free.argtypes = (ctypes.c_void_p,)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    block = libc.malloc(HUGE_BYTES)
    if not block:
        return False
    first = -(-block // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (block + HUGE_BYTES - first) // mmap.PAGESIZE * mmap.PAGESIZE
    agreed = libc.madvise(first, length, mmap.MADV_HUGEPAGE) == 0
    libc.free(block)
    return agreed
