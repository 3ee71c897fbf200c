"""What a static profile must keep under any compiler: its author's promises, and its limits."""

from __future__ import annotations

from dataclasses import dataclass

from results.static_profile import StaticProfile

# Rescaling takes one exponential for each row a thread has a part of. In the layout of mma.m16n8
# (PTX ISA, "Matrix fragments for mma.m16n8k16") four threads share a row: a tile of n keys gives a
# thread n / 4 elements of it, so that rescaling adds 4 / n, a quarter at the narrowest tile (16).
# A tile spread over more warps than it has rows for has a few more, never more than FEW.
EXTRA_SHARE = 0.25
FEW = 4.0


@dataclass(frozen=True)
class Breach:
    """One promise that the code does not keep: its name, the same for every compiler, and how."""

    promise: str
    text: str


def breaches(profile: StaticProfile) -> tuple[Breach, ...]:
    """The promises that a compiled profile breaks; none is kept or broken by what is not "ok".

    - "fits": an SM can hold a block of it at all.
    - "multiplies": a kernel that multiplies has matrix products in its hot loop. A compiler that
      gives up leaves a stub without any, and says nothing.
    - "keeps registers": nothing is spilled inside the hot loop of a default block.
    - "exponentials": one for each element of the tile, and few for rescaling.
    - "unmasked": the loop of full tiles selects nothing.
    """
    if profile.status != "ok" or profile.resources is None:
        return ()
    found: list[Breach] = []
    if profile.resources.occupancy.blocks < 1:
        limit = profile.resources.occupancy.limited_by
        found.append(Breach("fits", f"no block of it fits an SM ({limit})"))
    expected, loop = profile.expected, profile.hot_loop
    if loop is None:
        if expected.has_mma:
            found.append(Breach("multiplies", "no loop multiplies matrices"))
        return tuple(found)
    if expected.has_mma and not loop.mix["mma"]:
        found.append(Breach("multiplies", "no matrix product in the hot loop"))
    spilled = loop.spill_stores + loop.spill_loads
    if profile.is_default and not expected.may_spill and spilled:
        words = f"{loop.spill_stores} stores and {loop.spill_loads} loads"
        found.append(Breach("keeps registers", f"the hot loop spills ({words})"))
    if expected.exponentials is not None:
        least, taken = expected.exponentials, loop.mix["mufu"]
        if not least <= taken <= least + max(FEW, EXTRA_SHARE * least):
            words = f"{taken} exponentials a thread for {least:g} elements"
            found.append(Breach("exponentials", words))
    if expected.is_masked is False and loop.mix["select"]:
        found.append(Breach("unmasked", f"the loop without masks has {loop.mix['select']} selects"))
    return tuple(found)
