"""M5StickC Plus: MPU6886 behind an AXP192 power chip."""

from common.i2c_bus import I2CBus
from strut import axp192
from strut.sensor import Sensor

I2C_ID = 0
I2C_SDA = 21
I2C_SCL = 22
I2C_HZ = 400_000
STOP_PIN = 26  # normally closed contact to ground; a cut wire stops too
NODELAY = True
POWER_SAVE_OFF = True


def open_bus() -> I2CBus:
    """The bus of sensor and power chip."""
    return I2CBus(I2C_ID, I2C_SCL, I2C_SDA, I2C_HZ)


def open_sensor(bus: I2CBus) -> Sensor:
    """The board's IMU."""
    from strut.mpu6886 import MPU6886

    return MPU6886(bus)


def power_up(bus: I2CBus) -> None:
    """Switch the supplies on."""
    axp192.setup(bus)


def battery_mv(bus: I2CBus) -> int | None:
    """Battery voltage [mV]."""
    return axp192.battery_mv(bus)
