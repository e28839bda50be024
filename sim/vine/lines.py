"""One idea: the vine's pneumatic lines: pressures out of the valve board's registers, through lag and check valves, to actuators.

With the check valves shut nothing grows, and tube, base and muscles keep what they have.
"""

from __future__ import annotations

import math

import numpy as np

from onboard.growing.lines import CHANNELS
from onboard.messages import Floats
from onboard.vine_robot import VineRobot
from sim.boards.registers import ValveRegisterFile
from sim.vine.kernels.work import BASE_HEADING, CURVATURE, PRESSURE, RATE


class PneumaticLines:
    """Actuators behind one board's registers.

    values (4,): growth [m/s], tube pressure [Pa], base heading [rad], curvature [1/m].
    """

    def __init__(self, robot: VineRobot, registers: ValveRegisterFile) -> None:
        self.robot, self.registers, self.map = robot, registers, robot.line_map
        self.line_pa = np.zeros(CHANNELS)
        self.values = np.array([0.0, robot.actuators.pressure.set_pa, 0.0, 0.0])
        self.free = False

    def step(self, step_s: float) -> Floats:
        """Values after `step_s` under what the board puts out now; its sensors then read the lines."""
        if self.registers.output_writes():
            keep = math.exp(-step_s / self.robot.lines.time_constant_s) if self.robot.lines.time_constant_s else 0.0
            wanted = np.array(self.registers.outputs())
            self.line_pa = wanted + keep * (self.line_pa - wanted)
        values, self.free = self.map.from_pa(self.line_pa)
        self.values[0] = 0.0
        if self.free:
            reach = self.robot.slew * step_s
            self.values[:2] = values[:2]
            self.values[2:] += np.clip(values[2:] - self.values[2:], -reach, reach)
        self.registers.write_pressures(self.line_pa.tolist())
        return self.values

    def controls(self, row: Floats) -> None:
        """Write the values into a control row of the simulator."""
        row[RATE], row[PRESSURE], row[BASE_HEADING], row[CURVATURE] = self.values
