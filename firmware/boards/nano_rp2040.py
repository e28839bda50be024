"""Arduino Nano RP2040 Connect: LSM6DSOX on the board, valve converters on the same I2C pins."""

from common.i2c_bus import I2CBus
from strut.sensor import Sensor

I2C_ID = 0
I2C_SDA = 12
I2C_SCL = 13
I2C_HZ = 400_000
STOP_PIN = 25  # D2: normally closed contact to ground; a cut wire stops too
NODELAY = False  # its WiFi chip ignores the level of setsockopt and the driver closes the socket
POWER_SAVE_OFF = False  # config(pm=...) raises on it


def open_bus() -> I2CBus:
    """The sensor's bus."""
    return I2CBus(I2C_ID, I2C_SCL, I2C_SDA, I2C_HZ)


def open_sensor(bus: I2CBus) -> Sensor:
    """The board's IMU."""
    from strut.lsm6dsox import LSM6DSOX

    return LSM6DSOX(bus)


def power_up(bus: I2CBus) -> None:
    """Nothing between power and sensor on this board."""


def battery_mv(bus: I2CBus) -> int | None:
    """No battery gauge."""
    return None
