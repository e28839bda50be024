"""One idea: an ONNX session with one thread of its own, checked against its manifest and warmed up before anyone relies on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from onboard.errors import ModelError
from onboard.models.manifest import ModelFile, Port

Single = npt.NDArray[np.float32]


class Session:
    """Runs one model. Raises ModelError for a model that does not load or does not have its manifest's inputs and outputs."""

    def __init__(self, model: ModelFile) -> None:
        self.manifest = model.manifest
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(model.onnx, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise ModelError(f"{model.path}: onnxruntime does not load it: {_first_line(error)}") from error
        _compare(model, "input", self.manifest.inputs, self._session.get_inputs())
        _compare(model, "output", self.manifest.outputs, self._session.get_outputs())
        self._names = [port.name for port in self.manifest.outputs]
        self._warm_up(model)

    def run(self, inputs: dict[str, Single]) -> list[Single]:
        """Outputs in the manifest's order for named inputs of the manifest's shapes. Raises ModelError when it cannot."""
        try:
            out: list[Single] = self._session.run(self._names, inputs)
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise ModelError(f"model {self.manifest.name!r} cannot be run: {_first_line(error)}") from error
        return out

    def _warm_up(self, model: ModelFile) -> None:
        rng = np.random.default_rng(0)
        inputs = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in self.manifest.inputs}
        for port, out in zip(self.manifest.outputs, self.run(inputs), strict=True):
            if list(out.shape) != port.shape:
                raise ModelError(f"{model.path}: output {port.name!r} has shape {list(out.shape)}, not {port.shape}")


def _compare(model: ModelFile, what: str, wanted: list[Port], found: list[Any]) -> None:
    got = [(item.name, list(item.shape), item.type) for item in found]
    want = [(port.name, port.shape, "tensor(float)") for port in wanted]
    if got != want:
        raise ModelError(f"{model.path}: the network's {what}s are {got}, its manifest says {want}")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
