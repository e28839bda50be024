"""Who owns the outputs: arming, expiry, latching, limits and counters; no hardware in here.

A board starts DISARMED with its outputs at the configured safe set-points. ARM with a fresh, one-time epoch makes it
ACTIVE; then each valid command moves the outputs, within limits and slew. Silence, expiry, a stop or an output fault
puts the safe set-points out at once and LATCHES; DISARM and a new ARM are needed to leave that.
"""

from common import frames, ticks

DISARMED = 0
ACTIVE = 1
LATCHED = 2
STATES = ("disarmed", "active", "latched")

NO_CAUSE = 0
SILENCE = 1
EXPIRED = 2
STOP_MESSAGE = 3
STOP_INPUT = 4
WATCHDOG = 5
CRASH = 6
OUTPUT_FAULT = 7
STALL = 8
OVERCURRENT = 9
CAUSES = (
    "",
    "silence",
    "expired",
    "stop_message",
    "stop_input",
    "watchdog",
    "crash",
    "output_fault",
    "stall",
    "overcurrent",
)

F_UNCONFIGURED = 1
F_STOP_INPUT = 2
F_MEASUREMENT = 4
F_NOT_FOLLOWING = 8
F_OUTPUT = 16
F_CONFIG_UNREADABLE = 32
F_STALL = 64
F_OVERCURRENT = 128

FUTURE_US = 20_000  # a stamp this far ahead is still explained by clock synchronisation


class ChannelLimits:
    """One output's safe set-point, range and slew (counts, counts per second)."""

    def __init__(self, safe: int, low: int, high: int, slew: int) -> None:
        self.safe = safe
        self.low = low
        self.high = high
        self.slew = slew


class ActuatorConfig:
    """What the host must say before a board can be armed; see parse_config."""

    def __init__(
        self,
        generation: int,
        deadline_ms: int,
        channels: list[ChannelLimits],
        follow_tolerance: int,
        follow_ms: int,
    ) -> None:
        self.generation = generation
        self.deadline_ms = deadline_ms
        self.channels = channels
        self.follow_tolerance = follow_tolerance
        self.follow_ms = follow_ms


def whole(table: dict[str, object], key: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number from a settings table; ValueError names key and range."""
    value = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError("%s must be a whole number in %d .. %d" % (key, low, high))
    return value


def parse_config(table: object, channels: int, full_scale: int, lowest: int = 0) -> ActuatorConfig:
    """A decoded JSON object to a configuration with set-points in `lowest` .. `full_scale`; ValueError names the key."""
    if not isinstance(table, dict):
        raise ValueError("configuration must be an object")
    for key in table:
        if key not in ("generation", "deadline_ms", "channels", "follow_tolerance", "follow_ms"):
            raise ValueError("unknown key %s" % key)
    rows = table.get("channels")
    if not isinstance(rows, list) or len(rows) != channels:
        raise ValueError("channels must be a list of %d" % channels)
    limits = []
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or len(row) != 4:
            raise ValueError("channels[%d] needs safe, min, max, slew" % index)
        low = whole(row, "min", lowest, full_scale)
        high = whole(row, "max", low, full_scale)
        limits.append(ChannelLimits(whole(row, "safe", low, high), low, high, whole(row, "slew", 1, 10_000_000)))
    return ActuatorConfig(
        whole(table, "generation", 1, 65535),
        whole(table, "deadline_ms", 20, 10_000),
        limits,
        whole(table, "follow_tolerance", 0, 32767, 0),
        whole(table, "follow_ms", 0, 60_000, 0),
    )


class ActuatorOwner:
    """The state of one board's outputs. `outputs` (channels,) are the counts that the hardware must hold now."""

    def __init__(self, channels: int, boot_id: int, config: ActuatorConfig | None, start_cause: int) -> None:
        self.channels = channels
        self.boot_id = boot_id
        self.config = config
        self.state = LATCHED if start_cause else DISARMED
        self.cause = start_cause
        self.epoch = 0
        self.last_sequence = 0
        self.refused = [0] * len(frames.REFUSALS)
        self.refused_total = 0
        self.last_refusal = frames.NONE
        self.stop_input = False
        self.not_following: list[int] = []
        self.outputs = [0.0] * channels
        self._targets = [0] * channels
        self._lag_us = [0] * channels
        self._accepted = 0  # ticks of the last accepted command or arm
        self._issued = 0
        self._ttl_us = 0
        self._ticked: int | None = None
        self._go_safe()

    def refuse(self, reason: int) -> None:
        """Count a refusal."""
        self.refused[reason] += 1
        self.refused_total += 1
        self.last_refusal = reason

    def handle(self, kind: int, data: bytes, now: int) -> bool:
        """Act on a COMMAND, ARM, DISARM or STOP received at `now`; False and counted when it is refused."""
        if kind == frames.STOP:  # whatever it carries: a stop is never refused
            self.latch(STOP_MESSAGE)
            return True
        try:
            command = frames.decode_command(data)
            self._check(command, now)
            if kind == frames.COMMAND:
                self._command(command)
            elif kind == frames.ARM:
                self._arm(command)
            elif kind == frames.DISARM:
                self._disarm(command)
            else:
                raise frames.Refused(frames.R_TYPE)
        except frames.Refused as refusal:
            self.refuse(refusal.reason)
            return False
        self.last_sequence = command.sequence
        self._accepted = now
        self._issued = command.issued
        self._ttl_us = command.ttl_ms * 1000
        return True

    def configure(self, config: ActuatorConfig) -> None:
        """Take a new configuration; ValueError while active. Outputs go to its safe set-points at once."""
        if self.state == ACTIVE:
            raise ValueError("armed: configuration is refused until disarmed")
        self.config = config
        self._go_safe()

    def latch(self, cause: int) -> None:
        """Safe set-points now, and stay there until DISARM and ARM. The first cause is kept."""
        if self.state != LATCHED:
            self.state = LATCHED
            self.cause = cause
        self._go_safe()

    def tick(self, now: int, stop_input: bool) -> None:
        """Let time pass: expiry, stop input and slew. Call it at a fixed rate, before writing `outputs`."""
        elapsed_us = 0 if self._ticked is None else max(0, ticks.diff(now, self._ticked))
        self._ticked = now
        self.stop_input = stop_input
        if stop_input:
            self.latch(STOP_INPUT)
        if self.state != ACTIVE or self.config is None:
            return
        if ticks.diff(now, self._accepted) > self.config.deadline_ms * 1000:
            self.latch(SILENCE)
        elif ticks.diff(now, self._issued) > self._ttl_us:
            self.latch(EXPIRED)
        else:
            self._slew(self.config, elapsed_us)

    def follow(self, measured: list[int], elapsed_us: int) -> None:
        """Compare measurements with outputs; `not_following` lists channels off for longer than configured."""
        config = self.config
        if config is None or not config.follow_ms:
            self.not_following = []
            return
        late = []
        for index in range(self.channels):
            if abs(measured[index] - self.outputs[index]) > config.follow_tolerance:
                self._lag_us[index] = min(self._lag_us[index] + elapsed_us, 60_000_000)
            else:
                self._lag_us[index] = 0
            if self._lag_us[index] > config.follow_ms * 1000:
                late.append(index)
        self.not_following = late

    def faults(self) -> int:
        """The fault bits that this owner knows of."""
        bits = 0 if self.config is not None else F_UNCONFIGURED
        if self.stop_input:
            bits |= F_STOP_INPUT
        if self.not_following:
            bits |= F_NOT_FOLLOWING
        return bits

    def counters(self) -> dict[str, int]:
        """Refusals by name, only those that happened."""
        return {name: n for name, n in zip(frames.REFUSALS, self.refused) if n}

    def _check(self, command: frames.Command, now: int) -> None:
        if command.boot_id != self.boot_id:
            raise frames.Refused(frames.R_BOOT_ID)
        age = ticks.diff(now, command.issued)
        if age > command.ttl_ms * 1000:
            raise frames.Refused(frames.R_AGE)
        if age < -FUTURE_US:
            raise frames.Refused(frames.R_FUTURE)
        if command.sequence <= self.last_sequence:
            raise frames.Refused(frames.R_SEQUENCE)

    def _command(self, command: frames.Command) -> None:
        if self.state != ACTIVE or self.config is None:
            raise frames.Refused(frames.R_STATE)
        if command.epoch != self.epoch:
            raise frames.Refused(frames.R_EPOCH)
        if len(command.setpoints) != self.channels:
            raise frames.Refused(frames.R_COUNT)
        for index, limit in enumerate(self.config.channels):
            self._targets[index] = min(max(command.setpoints[index], limit.low), limit.high)

    def _arm(self, command: frames.Command) -> None:
        if self.state != DISARMED or self.stop_input:
            raise frames.Refused(frames.R_STATE)
        if command.epoch <= self.epoch:  # an epoch arms once
            raise frames.Refused(frames.R_EPOCH)
        if command.setpoints:
            raise frames.Refused(frames.R_COUNT)
        if self.config is None:
            raise frames.Refused(frames.R_UNCONFIGURED)
        self.epoch = command.epoch
        self.state = ACTIVE
        self.cause = NO_CAUSE

    def _disarm(self, command: frames.Command) -> None:
        if self.stop_input:
            raise frames.Refused(frames.R_STATE)
        if command.epoch != self.epoch:
            raise frames.Refused(frames.R_EPOCH)
        if command.setpoints:
            raise frames.Refused(frames.R_COUNT)
        self.state = DISARMED
        self._go_safe()

    def _go_safe(self) -> None:
        for index in range(self.channels):
            safe = 0 if self.config is None else self.config.channels[index].safe
            self._targets[index] = safe
            self.outputs[index] = float(safe)

    def _slew(self, config: ActuatorConfig, elapsed_us: int) -> None:
        for index, limit in enumerate(config.channels):
            step = limit.slew * elapsed_us / 1e6
            gap = self._targets[index] - self.outputs[index]
            self.outputs[index] += min(max(gap, -step), step)
