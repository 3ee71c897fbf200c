"""Our Triton kernels ahead of time: all are described as they are launched, and keep their bars."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from itertools import product
from pathlib import Path

import pytest
import torch

from impls.interface.static_kernel import StaticKernel, Target, static_kernels
from results.reading import Place
from results.static_baseline import read_baselines
from results.static_profile import StaticProfile, read_static
from results.static_promises import breaches
from suites.static.job import Job
from suites.static.worker import record_of

ROOT = Path(__file__).parent.parent
NAMES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
ARCHS = (80, 90, 100)
# A kernel only of the tests of the interpreter.
NOT_SHIPPED = {"bf16_dot_and_cast"}


def kernels_in_the_code() -> set[str]:
    """Functions of Triton that no other function of Triton calls: those are launched."""
    written, called = set(), set()
    for path in (ROOT / "impls").glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(map(is_jit, node.decorator_list)):
                written.add(node.name)
                names = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
                called |= {name.id for name in names if isinstance(name, ast.Name)}
    return written - called - NOT_SHIPPED


def is_jit(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).startswith("triton.jit")


def test_every_kernel_says_how_it_is_compiled():
    assert set(static_kernels()) == kernels_in_the_code()


def test_two_descriptions_of_one_kernel_are_refused(monkeypatch):
    from impls.triton_flash import static_forward

    monkeypatch.setattr(static_forward, "again", static_forward.forward, raising=False)
    with pytest.raises(ValueError, match='called "triton_flash_forward"'):
        static_kernels()


class Recorder:
    """Stands for a kernel: keeps what it was launched with."""

    def __init__(self, arg_names: list[str]) -> None:
        self.arg_names, self.calls = arg_names, []

    def __getitem__(self, grid):
        return self

    def __call__(self, *arguments, **constants):
        self.calls.append((dict(zip(self.arg_names, arguments, strict=False)), constants))


@pytest.fixture
def launched(monkeypatch):
    """`launched(name, capability, call)` → the arguments and constants of the kernel's launch."""
    pytest.importorskip("triton")
    launchers = [
        importlib.import_module(f"impls.triton_flash.{info.name}")
        for info in pkgutil.iter_modules([str(ROOT / "impls/triton_flash")])
        if info.name.startswith("launch")
    ]

    def launched(name, capability, call):
        recorders = {}
        for kernel in static_kernels().values():
            module = importlib.import_module(kernel.kernel.partition(":")[0])
            function = getattr(module, kernel.name)
            arg_names = getattr(function, "arg_names", None) or [p.name for p in function.params]
            recorders[kernel.name] = Recorder(arg_names)
            monkeypatch.setattr(module, kernel.name, recorders[kernel.name])
        for launcher in launchers:
            # Else they would look for the device of tensors that lie on a CPU.
            for function, answer in (
                ("capability_of", capability),
                ("processors_of", 108),
                ("is_interpreting", True),
                ("mend_bf16", None),
            ):
                if hasattr(launcher, function):
                    monkeypatch.setattr(launcher, function, lambda *_, answer=answer: answer)
        call()
        monkeypatch.undo()
        (call_made,) = recorders[name].calls
        return call_made

    return launched


def tensors(dtype: str, d: int, *, T_q: int = 512, H: int = 2, H_kv: int = 2, T_kv: int = 512):
    def empty(heads, T):
        return torch.empty(1, heads, T, d, dtype=NAMES[dtype])

    return empty(H, T_q), empty(H_kv, T_kv), empty(H_kv, T_kv)


def launch_of(name: str, dtype: str, d: int, variant):
    """The call that launches the kernel as its description says."""
    causal, window = variant.get("IS_CAUSAL", True), None
    if variant.get("HAS_WINDOW"):
        window = 100
    if "decode" in name:
        from impls.triton_flash.launch_decode import decode

        rows = variant.get("rows", 8)
        q, k, v = tensors(dtype, d, T_q=rows // 8, H=8 * 16, H_kv=16, T_kv=65536)
        window = window and 60000
        return lambda: decode(q, k, v, causal=causal, window=window)
    q, k, v = tensors(dtype, d)
    given = {"causal": causal, "window": window}
    if "hopper" in name:
        from impls.triton_flash.launch_hopper import attend

        if variant.get("HAS_TAIL"):
            q, k, v = tensors(dtype, d, T_kv=500)
        return lambda: attend(q, k, v, **given)
    if "PRECISION" in variant:
        given["precision"] = variant["PRECISION"]
    if "backward" in name:
        from impls.triton_flash.launch_backward import gradients

        lse = torch.empty(1, 2, 512)
        return lambda: gradients(q, k, v, q, lse, q, **given)
    from impls.triton_flash.launch import attend as portable

    return lambda: portable(q, k, v, **given)


def type_of(value) -> str:
    if isinstance(value, torch.Tensor):
        return f"*{next(name for name, dtype in NAMES.items() if dtype == value.dtype)}"
    return "fp32" if isinstance(value, float) else "i32"


# Triton's own, where a launcher gives none.
DEFAULTS = {"num_warps": 4, "num_stages": 3}


@pytest.mark.parametrize("d", [40, 64, 80, 128])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("capability", ARCHS)
@pytest.mark.parametrize("name", sorted(static_kernels()))
def test_what_is_compiled_is_what_is_launched(name, capability, dtype, d, launched):
    kernel = static_kernels()[name]
    if dtype not in kernel.dtypes:
        return
    for variant in kernel.variants:
        build = kernel.build(Target(capability, dtype, d, {}, variant))
        if build is None:
            is_hopper = name.endswith("hopper") and capability != 90
            is_too_wide = d > (64 if "backward" in name else 128)
            is_no_tf32x3 = dtype != "fp32" or capability == 100 or is_too_wide
            assert is_hopper or (variant.get("PRECISION") == "tf32x3" and is_no_tf32x3), variant
            continue
        arguments, constants = launched(name, capability, launch_of(name, dtype, d, variant))
        described = {**build.constants, **DEFAULTS, **build.block}
        assert {**DEFAULTS, **constants} == described, variant
        for argument, value in arguments.items():
            kind = build.types.get(argument, f"*{dtype}" if argument.startswith("p_") else "i32")
            assert kind == type_of(value), argument
            if argument.startswith("stride_") and argument not in build.unaligned:
                assert value % 16 == 0, f"{argument}={value} is described as a multiple of 16"


def profile_of(
    kernel: StaticKernel, capability: int, dtype: str, d: int, variant=None
) -> StaticProfile:
    build = kernel.build(Target(capability, dtype, d, {}, variant or kernel.variants[0]))
    assert build is not None
    job = Job(kernel.kernel, capability, dtype, d, build, is_default=True)
    return read_static(record_of(job), Place(job.what))


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def kept(profile: StaticProfile, but: str | None = None) -> StaticProfile:
    """The profile, which compiled, fits, and keeps its promises `but` one that is known."""
    assert profile.status == "ok", profile.reasons
    assert [breach.text for breach in breaches(profile) if breach.promise != but] == []
    assert profile.resources is not None and profile.hot_loop is not None
    return profile


def spills_in_the_loop(profile: StaticProfile) -> int:
    assert profile.hot_loop is not None
    return profile.hot_loop.spill_stores + profile.hot_loop.spill_loads


def test_the_forward_kernel_compiles_for_sm_90_without_spills(own_cache):
    found = kept(profile_of(static_kernels()["triton_flash_forward"], 90, "bf16", 128))
    assert found.resources and found.resources.spill_stores == 0
    assert found.bound and found.bound.limited_by == "mma" and found.bound.overlap_percent >= 95
    assert found.hot_loop and found.hot_loop.opcodes["HGMMA"] == 16, "8 of K, 8 of V, 64 rows each"
    assert found.hot_loop.iterations == 1.0, "the FLOP in the code are those described"
    assert [loop.mix["select"] > 0 for loop in found.other_loops] == [True], "causal: one masked"


# Default blocks in bf16 at d_h = 64 and 128 are what the gate compiles and holds to the figures of
# the baseline, to each exactly: here is what these must be.
ACCEPTED = {
    (one.kernel, one.arch, one.d_h): one for one in read_baselines() if one.triton == "3.7.1"
}


def test_every_kernel_is_accepted_on_every_architecture_it_is_for():
    for name in static_kernels():
        for capability, d in product(ARCHS, (64, 128)):
            is_for = not name.endswith("hopper") or capability == 90
            assert ((name, f"sm_{capability}", d) in ACCEPTED) == is_for, (name, capability, d)
    assert not any(one.breaks for one in ACCEPTED.values())
    assert all(one.loop_spill_stores == one.loop_spill_loads == 0 for one in ACCEPTED.values())


@pytest.mark.parametrize("capability", (80, 90))
def test_the_forward_kernel_is_limited_by_its_products_at_128(capability):
    one = ACCEPTED["triton_flash_forward", f"sm_{capability}", 128]
    assert one.limited_by == "mma" and (one.overlap_percent or 0) >= 95.0


@pytest.mark.parametrize("d", [64, 128])
def test_the_kernel_for_hopper_is_specialised_and_spills_nothing(d):
    one = ACCEPTED["triton_flash_forward_hopper", "sm_90", d]
    assert one.warps == 12 and one.registers <= 168 and one.mix["mma"]
    assert one.spill_stores == one.spill_loads == 0


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("capability", (80, 90))
@pytest.mark.parametrize("name", [name for name in static_kernels() if "backward" in name])
def test_the_backward_kernels_spill_little_and_are_bound_high(name, capability, d):
    one = ACCEPTED[name, f"sm_{capability}", d]
    assert one.spill_stores <= 48 and (one.overlap_percent or 0) >= 82.0


# Of 16 bits all but those; padded, on sm_100, 80 is as 96 and 160 as 192. Of float32, the longest
# to compile, the largest size of each block of the table, and one that is padded.
_OTHERS = (40, 80, 96, 160, 192, 256)
OTHERS = {
    "bf16": {80: _OTHERS, 90: _OTHERS, 100: (40, 96, 192, 256)},
    "fp32": {80: (128, 192, 256), 90: (40, 80, 128, 256), 100: (64, 96, 256)},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "d", "dtype"),
    [(c, d, dtype) for dtype, sizes in OTHERS.items() for c in ARCHS for d in sizes[c]],
)
def test_the_forward_kernels_blocks_fit_at_every_head_size(capability, d, dtype, own_cache):
    # Eight warps for 64 rows: the scores are made twice. Four spill, at d_h = 200 in the loop.
    but = "exponentials" if (capability, d, dtype) == (80, 256, "bf16") else None
    kernel = static_kernels()["triton_flash_forward"]
    assert spills_in_the_loop(kept(profile_of(kernel, capability, dtype, d), but)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(static_kernels()))
@pytest.mark.parametrize(("capability", "dtype"), [(86, "fp32"), (120, "bf16")])
def test_blocks_fit_devices_of_little_shared_memory(name, capability, dtype, own_cache):
    kernel = static_kernels()[name]
    if dtype not in kernel.dtypes:
        return
    if kernel.build(Target(capability, dtype, 256, {}, kernel.variants[0])) is None:
        return
    assert profile_of(kernel, capability, dtype, 256).reasons == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(static_kernels()))
def test_every_variant_compiles_in_float16_too(name, own_cache):
    kernel = static_kernels()[name]
    for variant in kernel.variants:
        if "PRECISION" not in variant:
            kept(profile_of(kernel, 90, "fp16", 128, variant))
