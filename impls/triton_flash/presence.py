"""Where the kernels can run: which device, and what must be installed."""

from __future__ import annotations

from impls.triton_flash.interpreter import is_interpreting, reasons_against_interpreting

OLDEST_CAPABILITY = 80


def on_a_cpu(name: str) -> str:
    """Why implementation `name` cannot run on a CPU, and what to type instead."""
    return (
        "runs on CUDA; on a CPU it is proven in Triton's interpreter "
        f"by `python -m impls check {name}`"
    )


def reasons_against_running(name: str, device: str) -> list[str]:
    """Reasons why no call of implementation `name` can succeed in this process on this device."""
    import torch

    if is_interpreting():
        return reasons_against_interpreting()
    reasons = []
    try:
        import triton  # noqa: F401  only whether it is there is asked
    except ImportError as error:
        if error.name != "triton":
            raise
        reasons.append("triton is not installed")
    if device != "cuda":
        # Without triton nor can the interpreter prove it.
        return reasons or [on_a_cpu(name)]
    if not torch.cuda.is_available():
        built = torch.version.cuda is not None
        reasons.append("no CUDA GPU is active" if built else "torch is built without CUDA")
    else:
        major, minor = torch.cuda.get_device_capability()
        if 10 * major + minor < OLDEST_CAPABILITY:
            reasons.append(f"compute capability {major}.{minor} is below 8.0")
    return reasons
