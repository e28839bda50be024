"""One idea: what a plan costs: the exported model against MuJoCo rollouts and against pytorch_mppi with the same network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from offboard.three_bar.evaluate import candidate_plans
from offboard.three_bar.held_out import STEPS
from onboard.clock import WallClock, process_cpu_s
from onboard.models.manifest import load_model_file
from onboard.models.strut_dynamics import StrutDynamics, nearest_rows
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import load_robot, physics_hash
from sim.three_bar.rollouts import PlantRollouts

THREADS = 2
CLOCK = WallClock()


def best_of(rounds: int, call: Callable[[], object]) -> tuple[float, float]:
    """The shortest wall time and the least processor time of all threads [ms] of a few calls.

    Wall time is what counts on a robot; processor time is what can be compared on a machine that others use as well.
    """
    walls, cpus = [], []
    for _ in range(rounds):
        begin_s, begin_cpu_s = CLOCK.now_s(), process_cpu_s()
        call()
        walls.append(CLOCK.now_s() - begin_s)
        cpus.append(process_cpu_s() - begin_cpu_s)
    return 1000.0 * min(walls), 1000.0 * min(cpus)


def bench(folder: Path, name: str, samples: int, rounds: int) -> dict[str, Any]:
    """plan_ms, ratios and parity for one model; `ratio_pytorch_mppi` only where that package is installed."""
    spec = load_robot()
    plant = Plant(spec)
    plant.settle()
    base = plant.snapshot()
    plans = candidate_plans(np.random.default_rng(0), samples)
    state = np.zeros(48)
    state[:18], state[36:42] = plant.caps().ravel(), plant.rest_u
    result: dict[str, Any] = {"samples": samples, "horizon_s": STEPS * spec.plant.step_s, "threads": THREADS}

    one = PlantRollouts(plant)
    one.caps_over(base, plans[:2])
    _, one_ms = best_of(rounds, lambda: one.caps_over(base, plans[: max(8, samples // 8)]))
    result["plant_steps_per_s_per_core"] = 1000.0 * max(8, samples // 8) * STEPS / one_ms
    both = PlantRollouts(plant, THREADS)
    mujoco_ms, mujoco_cpu_ms = best_of(max(2, rounds // 3), lambda: both.caps_over(base, plans))
    result |= {"mujoco_ms": mujoco_ms, "mujoco_cpu_ms": mujoco_cpu_ms}

    path = folder / f"{name}.json"
    if not path.is_file():
        return result
    model = StrutDynamics(load_model_file(path, spec.robot.name, physics_hash()), THREADS)
    model.rollout(state, plans, plant.world)
    plan_ms, plan_cpu_ms = best_of(rounds, lambda: model.rollout(state, plans, plant.world))
    result |= {"plan_ms": plan_ms, "plan_cpu_ms": plan_cpu_ms, "ratio_mujoco": mujoco_ms / plan_ms, "model": name}
    checkpoint = Path("runs/three_bar") / name / "best.pt"
    if checkpoint.is_file():
        result |= _against_torch(checkpoint, model, state, plans, plant.world, plan_ms, rounds)
    return result


def _against_torch(
    checkpoint: Path, model: StrutDynamics, state: np.ndarray, plans: np.ndarray, world: np.ndarray, plan_ms: float, rounds: int
) -> dict[str, Any]:
    import torch

    from offboard.three_bar.train import load_model

    network, _ = load_model(checkpoint)
    lengths, _ = model.rest_lengths(state[36:42], state[42:], plans)
    rows = torch.tensor(nearest_rows(world[None], state[:18].reshape(1, 6, 3).mean(axis=1), model.manifest.world_rows)).float()
    start = torch.tensor(state[:36].reshape(2, 6, 1, 3)).float().expand(2, 6, len(plans), 3)
    with torch.no_grad():
        caps, _ = network.rollout(start[0], start[1], torch.tensor(lengths), rows)
    ours = model.rollout(state, plans, world)[..., :18]
    out: dict[str, Any] = {"parity": float(np.abs(caps.permute(2, 0, 1, 3).flatten(2).numpy() - ours).max())}
    peer = _pytorch_mppi_ms(network, start, lengths[0, :, 0], rows, len(plans), model, rounds)
    if peer is not None:
        out |= {"pytorch_mppi_ms": peer[0], "pytorch_mppi_cpu_ms": peer[1], "ratio_pytorch_mppi": peer[0] / plan_ms}
    return out


def _pytorch_mppi_ms(
    network: Any, start: Any, rest: np.ndarray, rows: Any, samples: int, model: StrutDynamics, rounds: int
) -> tuple[float, float] | None:
    """One command of pytorch_mppi with the same network, samples and horizon, a chunk a step; None where it is not installed."""
    try:
        from pytorch_mppi import MPPI
    except ImportError:
        return None
    import torch

    law, chunks = model.manifest.motors, model.manifest.chunks
    wind = law.max_speed_rad_s * law.spool_radius_u * model.manifest.chunk_steps * model.manifest.step_s

    def dynamics(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        caps, velocity = x[:, :18].view(-1, 6, 3).transpose(0, 1), x[:, 18:36].view(-1, 6, 3).transpose(0, 1)
        end = torch.clamp(x[:, 36:42] - u * wind, law.rest_min_u, law.rest_max_u)
        lengths = torch.stack([x[:, 36:42], 0.5 * (x[:, 36:42] + end), end]).transpose(1, 2)
        caps, velocity = network(caps, velocity, lengths, rows)
        return torch.cat([caps.transpose(0, 1).flatten(1), velocity.transpose(0, 1).flatten(1), end], dim=-1)

    def cost(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return -x[:, 0:18:3].mean(dim=-1)

    torch.set_num_threads(THREADS)
    try:
        limit = torch.ones(6)
        peer = MPPI(dynamics, cost, 42, torch.eye(6), samples, chunks, u_min=-limit, u_max=limit)
        x0 = torch.cat([start[:, :, 0].flatten(), torch.tensor(rest)])
        with torch.no_grad():
            peer.command(x0)
            return best_of(max(2, rounds // 2), lambda: peer.command(x0))
    finally:
        torch.set_num_threads(1)
