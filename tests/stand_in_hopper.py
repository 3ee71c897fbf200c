"""A stand-in for a Hopper GPU: Triton compiles for it for real, and what is launched is noted."""

import contextlib
from dataclasses import dataclass, field

import torch


@dataclass
class Launch:
    """One launch: what was compiled for it, its grid, and whose memory its scratch would be."""

    metadata: object
    cubin: bytes
    grid: tuple
    allocator: object


@dataclass
class StandIn:
    """What Triton asks of a driver (3.6 and 3.7), answered for compute capability 9.0."""

    launches: list[Launch] = field(default_factory=list)

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    @property
    def utils(self):
        return self

    def get_device_properties(self, device):
        return {"max_shared_mem": 227 * 1024}

    def load_binary(self, name, cubin, shared, device):
        return cubin, cubin, 168, 0, 1024  # module, function, registers, spills, most threads

    def launcher_cls(self, source, metadata):
        from triton.runtime import _allocation

        def run(x, y, z, stream, cubin, *rest):
            allocator = _allocation._allocator.get()
            self.launches.append(Launch(metadata, cubin, (x, y, z), allocator))

        return run


@contextlib.contextmanager
def hopper_stood_in_for(monkeypatch):
    """Within, CPU tensors pass for those of an H200 in `launch_hopper` → the `StandIn`."""
    from triton.runtime import driver

    from impls.triton_flash import launch_hopper
    from impls.triton_flash.forward_hopper import triton_flash_forward_hopper

    stand_in = StandIn()
    with monkeypatch.context() as patch:
        patch.setattr(launch_hopper, "capability_of", lambda device: 90)
        patch.setattr(launch_hopper, "_compilations", {})
        patch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
        # Not by set_active: to undo that is to ask for a real driver.
        patch.setattr(driver, "_active", stand_in)
        try:
            yield stand_in
        finally:
            triton_flash_forward_hopper.device_caches.clear()
