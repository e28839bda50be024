"""What a motor board must be told after each of its boots before it can be armed."""

from common.actuator import ActuatorConfig, parse_config, whole

FULL_SCALE = 10_000  # counts of a set-point at full speed
KEYS = ("boot_id", "travel", "full_counts_s", "full_duty", "current_ma", "overcurrent_ms", "stall_ms")
TRAVEL = 32_000  # counts from the start; telemetry has 16 bits


class MotorConfig:
    """full_counts_s: encoder counts a second at full command; full_duty: the bridge's share that gives them, unloaded.

    travel: (least, greatest) count of every motor. It is counted from this boot's start, so the host says it at every boot.
    """

    def __init__(self, table: object, channels: int, boot_id: int) -> None:
        """From a decoded JSON object; ValueError names the key."""
        if not isinstance(table, dict):
            raise ValueError("configuration must be an object")
        rest = {key: value for key, value in table.items() if key not in KEYS}
        self.owner: ActuatorConfig = parse_config(rest, channels, FULL_SCALE, -FULL_SCALE)
        if any([limit.safe for limit in self.owner.channels]):
            raise ValueError("safe must be 0: a motor's safe state is off")
        if table.get("boot_id") != boot_id:
            raise ValueError("boot_id is that of another boot")
        travel = table.get("travel")
        if not isinstance(travel, list) or len(travel) != channels:
            raise ValueError("travel must be a list of %d" % channels)
        self.travel = []
        for pair in travel:
            if not isinstance(pair, list) or len(pair) != 2:
                raise ValueError("travel needs least and greatest count")
            ends = {"travel least": pair[0], "travel greatest": pair[1]}
            low = whole(ends, "travel least", -TRAVEL, TRAVEL)
            self.travel.append((low, whole(ends, "travel greatest", low, TRAVEL)))
        self.full_counts_s = whole(table, "full_counts_s", 10, 30_000)
        self.full_duty = whole(table, "full_duty", 100, 1000) / 1000
        self.current_ma = whole(table, "current_ma", 50, 3000)
        self.overcurrent_ms = whole(table, "overcurrent_ms", 10, 10_000)
        self.stall_ms = whole(table, "stall_ms", 50, 10_000)
