"""Building a graph of ONNX operators line by line."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

# Operators of this set are in every onnxruntime from 1.12 on; it goes with version 8 of the file format.
OPSET: Final = 17
IR_VERSION: Final = 8


class Graph:
    """Nodes and constants; every method adds one and returns the name of what it computes."""

    def __init__(self) -> None:
        import onnx

        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """An array that the file holds."""
        name = f"c{len(self.constants)}"
        array = np.ascontiguousarray(np.asarray(value, dtype=dtype)).reshape(np.shape(value))
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """What the operator makes of its inputs."""
        name = output or f"t{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def sum(self, value: str, axis: int, keepdims: bool) -> str:
        """The sum over an axis."""
        return self.add("ReduceSum", value, self.constant([axis], np.int64), keepdims=int(keepdims))

    def cast(self, value: str, dtype: Any) -> str:
        """The same in another type."""
        return self.add("Cast", value, to=self.code(dtype))

    def code(self, dtype: Any) -> int:
        """ONNX's number of a type."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def model(
        self, inputs: dict[str, tuple[Any, list[Any]]], outputs: dict[str, tuple[Any, list[Any]]], writer: str
    ) -> Any:
        """The finished model, checked; inputs and outputs have a type and a shape each."""
        helper = self.onnx.helper

        def described(values: dict[str, tuple[Any, list[Any]]]) -> list[Any]:
            return [helper.make_tensor_value_info(name, self.code(d), shape) for name, (d, shape) in values.items()]

        graph = helper.make_graph(self.nodes, "dualgap", described(inputs), described(outputs), self.constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="dualgap",
            producer_version=writer,
        )
        self.onnx.checker.check_model(model, full_check=True)
        return model
