"""One idea: a short way to write an ONNX graph by hand: each operation returns the name of its result."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KINDS = {"float": TensorProto.FLOAT, "int": TensorProto.INT64}


class Graph:
    """Collects nodes and constants; names are unique within one builder's `prefix`."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.count = prefix, 0
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def _name(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}"

    def const(self, value: Any, kind: Any = np.float32) -> str:
        """A constant tensor."""
        name = self._name()
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def ints(self, *values: int) -> str:
        """A constant vector of whole numbers: shapes and axes."""
        return self.const(values, np.int64)

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """One node; its result's name, or a list of names."""
        names = [self._name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def named(self, source: str, name: str) -> None:
        """Give a result the name that the graph's output bears."""
        self.nodes.append(helper.make_node("Identity", [source], [name]))

    def add(self, a: str, b: str) -> str:
        return str(self.op("Add", a, b))

    def sub(self, a: str, b: str) -> str:
        return str(self.op("Sub", a, b))

    def mul(self, a: str, b: str) -> str:
        return str(self.op("Mul", a, b))

    def div(self, a: str, b: str) -> str:
        return str(self.op("Div", a, b))

    def matmul(self, a: str, b: str) -> str:
        return str(self.op("MatMul", a, b))

    def clip(self, a: str, low: float, high: float) -> str:
        """Between two constants."""
        return str(self.op("Clip", a, self.const(low), self.const(high)))

    def columns(self, a: str, begin: int, end: int, axis: int = 1) -> str:
        """Part of an axis."""
        return str(self.op("Slice", a, self.ints(begin), self.ints(end), self.ints(axis)))

    def wide(self, a: str, axis: int) -> str:
        """One more axis of length 1."""
        return str(self.op("Unsqueeze", a, self.ints(axis)))

    def join(self, *parts: str, axis: int = 1) -> str:
        """Side by side along an axis."""
        return str(self.op("Concat", *parts, axis=axis))


def value(name: str, shape: list[int], kind: str = "float") -> onnx.ValueInfoProto:
    """A typed input or output."""
    return helper.make_tensor_value_info(name, KINDS[kind], shape)
