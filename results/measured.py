"""What was measured of one cell, as records: the parts of its journal line (`results.schema`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Timing:
    """The samples of one cell, seconds a call on the cell's clock.

    Attributes:
        ci_low_s, ci_high_s: confidence interval of the median within this launch; it says nothing
            of other launches.
        stop: why sampling ended, "precise", "budget" or "max_samples".
        samples_s: at most 1000 of them.
        wall_median_s, wall_min_s: the same calls on the wall clock.
        first_call_s: with whatever it compiles; in no other figure here.
        prepare_s: work that depends on the problem alone, done once outside the clock.
        first_ten_median_s: before the clocks of a warm device settle.
        floor_s: what the clock shows for an empty call.
        host_s: CUDA: host time to enqueue one call.
    """

    median_s: float
    min_s: float
    n: int
    q1_s: float | None = None
    q3_s: float | None = None
    mean_s: float | None = None
    ci_low_s: float | None = None
    ci_high_s: float | None = None
    stop: str | None = None
    samples_s: tuple[float, ...] = ()
    wall_median_s: float | None = None
    wall_min_s: float | None = None
    first_call_s: float | None = None
    prepare_s: float | None = None
    warmup_n: int | None = None
    first_ten_median_s: float | None = None
    floor_s: float | None = None
    calls_per_sample: int | None = None
    host_s: float | None = None


@dataclass(frozen=True)
class Counts:
    """The arithmetic of a cell (`impls.interface.cost`); `pairs` are those of one head.

    `algorithmic_bytes` is what the implementation declares that it moves; not read from counters.
    `cache_bytes` likewise what its tiles bring from the cache, None where it does not know.
    """

    pairs: int
    flop: int
    flop_convention: str
    exp: int
    compulsory_bytes: int
    algorithmic_bytes: int | None = None
    cache_bytes: int | None = None


@dataclass(frozen=True)
class Bound:
    """The least time the ceilings allow, max(flop / FLOP/s, compulsory bytes / bytes/s).

    Attributes:
        binds: "compute" or "memory".
        flop_provider: who reached `flop_per_s`, "torch.mm" for instance.
        bytes_level: "l2", "llc", "dram" or "hbm".
        bytes_provider: "copy" or "read".
    """

    time_s: float
    binds: str
    flop_per_s: float | None = None
    flop_provider: str | None = None
    bytes_per_s: float | None = None
    bytes_level: str | None = None
    bytes_provider: str | None = None


@dataclass(frozen=True)
class Memory:
    """Peak bytes of a call and how they were found ("torch allocator", "profiler").

    `allocations` is how often one call asked for memory, `allocated_bytes` for how much in all.
    """

    peak_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    allocations: int | None = None
    allocated_bytes: int | None = None
    how: str | None = None


@dataclass(frozen=True)
class Counters:
    """What was counted of one call, outside the clock: exact, and the same on any machine.

    Attributes:
        operators: those that torch dispatched below autograd, views included; null for compiled
            code, which dispatches none.
        kernels: launched on a GPU; null where no profiler tells.
        torch_flop: by torch's own formulas, of the products really made, masked or not; null where
            an operator without a formula did them, such as SDPA's on a CPU.
        graphs, graph_breaks: of torch.compile, until the first call returned.
        recompiles: graphs made by later calls on the same inputs.
    """

    operators: int | None = None
    kernels: int | None = None
    torch_flop: int | None = None
    graphs: int | None = None
    graph_breaks: int | None = None
    recompiles: int | None = None


@dataclass(frozen=True)
class OutputCheck:
    """The distance of one output to float64, and what was allowed; null is not finite."""

    max_error: float | None = None
    relative_error: float | None = None
    allowed_max: float | None = None
    allowed_relative: float | None = None
    naive_max_error: float | None = None


@dataclass(frozen=True)
class Check:
    """The proof that belongs to a time.

    Attributes:
        rows: "all", or what sample of them was compared.
        outputs: by name, "out", "lse", "dq", "dk", "dv".
        after_timing: the outputs were compared once more after the last sample.
        where: "device" or "interpreter".
    """

    ok: bool
    against: str | None = None
    rows: str | None = None
    outputs: Mapping[str, OutputCheck] = field(default_factory=dict)
    after_timing: bool | None = None
    where: str | None = None


@dataclass(frozen=True)
class Host:
    """What the machine did meanwhile; system CPU time and foreign load are shares, 0 to 1.

    `cpu_throttles` counts how often a core was slowed for its heat, `swapped_in_bytes` what all
    processes read back from swap. Of `looks` some time apart `looks_set_aside` are left out: beside
    them a fixed work was slow.
    """

    minor_faults_per_call: float | None = None
    system_share: float | None = None
    involuntary_switches: float | None = None
    foreign_load: float | None = None
    looks: int | None = None
    looks_set_aside: int | None = None
    cpu_throttles: int | None = None
    swapped_in_bytes: int | None = None


@dataclass(frozen=True)
class DeviceState:
    """What the device told of itself right after the samples.

    Seconds of the cell that a GPU was slowed for its heat or held at its power cap, and the
    processes that computed on it beside this one. `kernels_s` is its time in the kernels of one
    call, by the profiler and not the clock.
    """

    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    energy_j: float | None = None
    thermally_throttled_s: float | None = None
    power_capped_s: float | None = None
    other_processes: int | None = None
    kernels_s: float | None = None
