"""AXP192 power chip of the M5StickC Plus: supplies on in the maker's order, battery voltage."""

from common.i2c_bus import I2CBus

ADDRESS = 0x34
POWER_OUTPUTS = 0x12
BATTERY_VOLTAGE = 0x78

_BEFORE = ((0x28, 0xCC), (0x82, 0xFF), (0x33, 0xC0))
_OUTPUTS_ON = 0x4D
_AFTER = (
    (0x36, 0x0C),
    (0x91, 0xF0),
    (0x90, 0x02),
    (0x30, 0x80),
    (0x39, 0xFC),
    (0x35, 0xA2),
    (0x32, 0x46),
)


def setup(bus: I2CBus) -> None:
    """Display and sensor supplies, converters, charger; raises BusError."""
    for register, value in _BEFORE:
        bus.write(ADDRESS, register, value)
    bus.write(ADDRESS, POWER_OUTPUTS, bus.read(ADDRESS, POWER_OUTPUTS) | _OUTPUTS_ON)
    for register, value in _AFTER:
        bus.write(ADDRESS, register, value)


def battery_mv(bus: I2CBus) -> int:
    """Battery voltage [mV]: 12 bits of 1.1 mV, high byte first; raises BusError."""
    raw = bytearray(2)
    bus.read_into(ADDRESS, BATTERY_VOLTAGE, raw)
    return ((raw[0] << 4) | (raw[1] & 0x0F)) * 11 // 10
