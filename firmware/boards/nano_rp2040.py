"""Arduino Nano RP2040 Connect: LSM6DSOX on the board, valve converters on the same I2C pins, two motor drivers."""

from common.i2c_bus import I2CBus
from strut.sensor import Sensor

from boards.board import Board, MotorPins


class NanoRp2040(Board):
    """Its WiFi chip ignores the level of setsockopt and the driver closes the socket; config(pm=...) raises."""

    I2C_SDA = 12
    I2C_SCL = 13
    STOP_PIN = 25  # D2
    NODELAY = False
    POWER_SAVE_OFF = False
    MOTORS = (
        MotorPins(16, 17, 18, 19, 26),  # D4 D5, D6 D7, A0
        MotorPins(20, 21, 5, 7, 27),  # D8 D9, D10 D11, A1
    )

    def open_sensor(self, bus: I2CBus) -> Sensor:
        from strut.lsm6dsox import LSM6DSOX

        return LSM6DSOX(bus)
