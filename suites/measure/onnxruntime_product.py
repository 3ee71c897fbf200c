"""ONNX Runtime's float32 matrix product, where the library is installed: a rival of the others."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np

_OPSET, _IR_VERSION = 17, 8
"""Old ones, which every ONNX Runtime of the range reads."""


def is_installed() -> bool:
    """Whether ONNX Runtime and what makes its graphs can be found."""
    return all(importlib.util.find_spec(name) is not None for name in ("onnxruntime", "onnx"))


def product(x: np.ndarray, y: np.ndarray, out: np.ndarray, threads: int) -> Callable[[], object]:
    """A call of x · y into `out`, float32, read and written where they lie.

    Neither is a constant of the graph: it would be packed once, outside the clock.
    """
    import onnxruntime  # pyright: ignore[reportMissingImports]  # an extra, not in the lock
    from onnx import TensorProto, helper  # pyright: ignore[reportMissingImports]  # the same

    x_info, y_info, out_info = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, list(array.shape))
        for name, array in (("x", x), ("y", y), ("out", out))
    )
    node = helper.make_node("MatMul", ["x", "y"], ["out"])
    graph = helper.make_graph([node], "product", [x_info, y_info], [out_info])
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Its threads wait busily for the next run, on the clock of what is measured next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for name, array in (("x", x), ("y", y)):
        binding.bind_input(name, "cpu", 0, array.dtype, list(array.shape), array.ctypes.data)
    binding.bind_output("out", "cpu", 0, out.dtype, list(out.shape), out.ctypes.data)

    # The binding has addresses alone: the call keeps the arrays alive.
    def call(_keep: tuple[np.ndarray, ...] = (x, y, out)) -> object:
        return session.run_with_iobinding(binding)

    return call
