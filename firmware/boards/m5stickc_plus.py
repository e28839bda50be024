"""M5StickC Plus: MPU6886 behind an AXP192 power chip."""

from common.i2c_bus import I2CBus
from strut import axp192
from strut.sensor import Sensor

from boards.board import Board


class M5StickCPlus(Board):
    """WiFi power saving off: it delivers data in bursts."""

    I2C_SDA = 21
    I2C_SCL = 22
    STOP_PIN = 26

    def open_sensor(self, bus: I2CBus) -> Sensor:
        from strut.mpu6886 import MPU6886

        return MPU6886(bus)

    def power_up(self, bus: I2CBus) -> None:
        axp192.setup(bus)

    def battery_mv(self, bus: I2CBus) -> int | None:
        return axp192.battery_mv(bus)
