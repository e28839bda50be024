"""One idea: a learned strut robot as the Dynamics port: motor law outside, network inside, samples in tiles."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.errors import ModelError, NotANumberError
from onboard.messages import Floats
from onboard.models.manifest import Manifest, ModelFile, StrutMotors
from onboard.models.session import Session, Single

WORLD_COLUMNS = 16  # centre 3, half lengths 3, rotation 9 (rows, world from box), friction (0: no object)


def nearest_rows(world: Floats, point: Floats, rows: int) -> Floats:
    """The `rows` objects (B, rows, 16) of worlds (B, K, 16) nearest to points (B, 3), padded with zero rows."""
    if world.shape[1] < rows:
        world = np.concatenate([world, np.zeros((len(world), rows - world.shape[1], WORLD_COLUMNS), world.dtype)], axis=1)
    offset = point[:, None] - world[..., 0:3]
    rotation = world[..., 6:15].reshape(*world.shape[:2], 3, 3)
    q = np.abs(np.einsum("bki,bkij->bkj", offset, rotation)) - world[..., 3:6]
    distance = np.linalg.norm(np.maximum(q, 0.0), axis=-1) + np.minimum(q.max(axis=-1), 0.0)
    distance = np.where(world[..., 15] > 0.0, distance, np.inf)
    order = np.argsort(distance, axis=1, kind="stable")[:, :rows]
    nearest: Floats = np.take_along_axis(world, order[..., None], axis=1)
    return nearest


@njit(cache=True)  # type: ignore[untyped-decorator]
def _wind(
    rest: npt.NDArray[np.float64],
    speed: npt.NDArray[np.float64],
    controls: npt.NDArray[np.float64],
    law: tuple[float, float, float, float, float],
    half: int,
    lengths: npt.NDArray[np.float32],
    speeds: npt.NDArray[np.float64],
) -> None:
    """Fill lengths (H + 1, nu, M) every `half` steps and speeds (H + 1, M, nu) from controls (M, T, nu)."""
    top, radius, low, high, step_s = law
    for m in range(controls.shape[0]):
        for c in range(controls.shape[2]):
            length, omega = rest[c], speed[c]
            lengths[0, c, m] = length
            speeds[0, m, c] = omega
            for t in range(controls.shape[1]):
                new = top * min(max(controls[m, t, c], -1.0), 1.0)
                length = min(max(length - 0.5 * (omega + new) * radius * step_s, low), high)
                omega = new
                if (t + 1) % half == 0:
                    lengths[(t + 1) // half, c, m] = length
                    speeds[(t + 1) // half, m, c] = omega


class StrutDynamics:
    """Rolls out states (caps, velocities, rest lengths, motor speeds) of a strut robot; see onboard/planning/costs.py StrutState.

    `threads` sessions work on tiles of samples side by side. Same inputs, same outputs, whatever the number of threads.
    """

    def __init__(self, model: ModelFile, threads: int = 1) -> None:
        self.manifest: Manifest = model.manifest
        if self.manifest.chunk_steps % 2:
            raise ModelError(f"{model.path}: chunk_steps is odd")
        if self.manifest.motors is None:
            raise ModelError(f"{model.path}: a strut robot's manifest names its motors")
        self.motors: StrutMotors = self.manifest.motors
        self._sessions = [Session(model) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rollout") if threads > 1 else None
        self.caps, self.cables = self.manifest.inputs[0].shape[0], self.manifest.inputs[2].shape[1]

    @property
    def steps(self) -> int:
        """Control steps that one rollout covers."""
        return self.manifest.chunks * self.manifest.chunk_steps

    def rest_lengths(self, rest: Floats, speed: Floats, controls: Floats) -> tuple[Single, Floats]:
        """Rest lengths (2 C + 1, nu, M) and motor speeds (2 C + 1, M, nu) at every half chunk by the motor law."""
        motors = self.motors
        halves = 2 * self.manifest.chunks + 1
        lengths = np.empty((halves, controls.shape[2], len(controls)), dtype=np.float32)
        speeds = np.empty((halves, len(controls), controls.shape[2]))
        law = (motors.max_speed_rad_s, motors.spool_radius_u, motors.rest_min_u, motors.rest_max_u, self.manifest.step_s)
        _wind(rest, speed, np.ascontiguousarray(controls), law, self.manifest.chunk_steps // 2, lengths, speeds)
        return lengths, speeds

    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        """States (M, C, nx) at the ends of C chunks, from state (nx,), controls (M, T, nu) and world (K, 16).

        Raises NotANumberError for a non-finite state or control, ModelError for another horizon. Samples whose
        prediction is not finite are returned as such.
        """
        samples, steps, nu = controls.shape
        size = 6 * self.caps + 2 * self.cables
        if state.shape != (size,) or nu != self.cables or steps != self.steps:
            raise ModelError(
                f"model {self.manifest.name!r} takes a state of {size}, {self.steps} steps and {self.cables} controls, got "
                f"{state.shape}, {steps} and {nu}"
            )
        if not (np.isfinite(state).all() and np.isfinite(controls).all() and np.isfinite(world).all()):
            raise NotANumberError("state, controls or world of a rollout are not finite")
        caps = state[: 3 * self.caps].reshape(self.caps, 3)
        lengths, speeds = self.rest_lengths(state[6 * self.caps : 6 * self.caps + nu], state[6 * self.caps + nu :], controls)
        common = {
            "caps": caps[:, None].astype(np.float32),
            "velocity": state[3 * self.caps : 6 * self.caps].reshape(self.caps, 1, 3).astype(np.float32),
            "world": nearest_rows(world[None], caps.mean(axis=0)[None], self.manifest.world_rows).astype(np.float32),
        }
        out = np.empty((samples, self.manifest.chunks, size))
        tile = self.manifest.tile
        jobs = [(begin, min(begin + tile, samples)) for begin in range(0, samples, tile)]

        def work(worker: int) -> None:
            for begin, end in jobs[worker :: len(self._sessions)]:
                rest = lengths[:, :, begin:end]
                if end - begin < tile:
                    rest = np.concatenate([rest, np.repeat(rest[:, :, -1:], tile - end + begin, axis=2)], axis=2)
                moved, speed = self._sessions[worker].run({**common, "rest": np.ascontiguousarray(rest)})
                flat = (self.manifest.chunks, 3 * self.caps, tile)
                out[begin:end, :, : 3 * self.caps] = _samples_first(moved, flat)[: end - begin]
                out[begin:end, :, 3 * self.caps : 6 * self.caps] = _samples_first(speed, flat)[: end - begin]

        if self._pool is None:
            work(0)
        else:
            list(self._pool.map(work, range(len(self._sessions))))
        out[:, :, 6 * self.caps : 6 * self.caps + nu] = lengths[2::2].transpose(2, 0, 1)
        out[:, :, 6 * self.caps + nu :] = speeds[2::2].transpose(1, 0, 2)
        return out


def _samples_first(chunks: Single, flat: tuple[int, int, int]) -> Single:
    """(C, caps, M, 3) -> (M, C, 3 caps)."""
    moved: Single = chunks.transpose(2, 0, 1, 3).reshape(flat[2], flat[0], flat[1])
    return moved
