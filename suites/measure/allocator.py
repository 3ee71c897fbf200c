"""The allocator's policy: steady temporaries, set before the first tensor, named in the run."""

from __future__ import annotations

import ctypes
import platform

# glibc's malloc.h. Default glibc hands large temporaries back to the kernel and zeroes them anew at
# every call, or not, depending on what the process allocated before: a factor of 2 to 10.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_POLICY = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 << 20))

NOT_GLIBC = "default (not glibc)"
STEADY = "glibc mmap_max=0 trim_threshold=2147483647 top_pad=67108864"

_policy = "default"


def make_steady() -> str:
    """Tell glibc to keep freed memory; → the policy, as it goes into the fingerprint.

    Call it before the first tensor. Elsewhere than on glibc nothing is changed.
    """
    global _policy
    if platform.libc_ver()[0] != "glibc":
        _policy = NOT_GLIBC
        return _policy
    mallopt = ctypes.CDLL(None).mallopt
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    accepted = [mallopt(parameter, value) == 1 for parameter, value in _POLICY]
    _policy = STEADY if all(accepted) else "glibc, mallopt refused"
    return _policy


def policy() -> str:
    """The policy now: "default" until `make_steady` is called."""
    return _policy
