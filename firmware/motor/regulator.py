"""One motor without hardware: speed from counts, speed loop, current limit, ends of travel, stall."""

from motor.config import FULL_SCALE, MotorConfig

SPEED_FILTER = 0.4  # share of the newest difference, one a control tick
INTEGRAL_1_S = 6.0  # of the relative speed error into duty
INTEGRAL_LIMIT = 0.25
ROOM_LEAST = 0.1  # a limited motor keeps this much of its duty, so that its current can be judged again
ROOM_STEP = 0.02
STALL_SHARE = 0.02  # of full speed: slower than this ...
STALL_DUTY = 0.15  # ... with more duty than this is a stall


class Regulator:
    """`step` once a control tick; `overcurrent` and `stalled` say that the motor must be switched off."""

    def __init__(self) -> None:
        self.count = 0
        self.speed = 0.0  # counts/s
        self.current_ma = 0
        self.overcurrent = False
        self.stalled = False
        self._started = False
        self._integral = 0.0
        self._room = 1.0
        self._over_us = 0
        self._still_us = 0

    def measure(self, count: int, current_ma: int, elapsed_us: int) -> None:
        """New readings."""
        if self._started and elapsed_us > 0:
            self.speed += SPEED_FILTER * ((count - self.count) * 1e6 / elapsed_us - self.speed)
        self._started = True
        self.count = count
        self.current_ma = current_ma

    def duty(self, config: MotorConfig, motor: int, setpoint: float, elapsed_us: int) -> float:
        """The bridge's duty for a set-point in counts of 1 / FULL_SCALE of full speed."""
        share = setpoint / FULL_SCALE
        low, high = config.travel[motor]
        if (share > 0.0 and self.count >= high) or (share < 0.0 and self.count <= low):
            share = 0.0
        if share == 0.0:
            self.rest()
            return 0.0
        elapsed_s = elapsed_us / 1e6
        error = share - self.speed / config.full_counts_s
        self._integral += INTEGRAL_1_S * error * elapsed_s * config.full_duty
        self._integral = min(max(self._integral, -INTEGRAL_LIMIT), INTEGRAL_LIMIT)
        wanted = min(max(share * config.full_duty + self._integral, -1.0), 1.0)
        if wanted * share < 0.0:  # it is braked, not driven backwards, when it is too fast
            wanted = 0.0
        self._limit_current(config, elapsed_us)
        duty = wanted * self._room
        self._watch(config, duty, elapsed_us)
        return duty

    def rest(self) -> None:
        """Off: nothing is pending."""
        self._integral = 0.0
        self._room = 1.0
        self._over_us = self._still_us = 0

    def forgive(self) -> None:
        """Armed anew: what was wrong may be right now."""
        self.overcurrent = self.stalled = False
        self.rest()

    def _limit_current(self, config: MotorConfig, elapsed_us: int) -> None:
        if self.current_ma > config.current_ma:
            self._room = max(ROOM_LEAST, self._room * config.current_ma / self.current_ma)
            self._over_us += elapsed_us
        else:
            self._room = min(1.0, self._room + ROOM_STEP)
            self._over_us = 0
        if self._over_us > config.overcurrent_ms * 1000:
            self.overcurrent = True

    def _watch(self, config: MotorConfig, duty: float, elapsed_us: int) -> None:
        if abs(duty) > STALL_DUTY and abs(self.speed) < STALL_SHARE * config.full_counts_s:
            self._still_us += elapsed_us
        else:
            self._still_us = 0
        if self._still_us > config.stall_ms * 1000:
            self.stalled = True
