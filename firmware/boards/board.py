"""What an application needs to know of the board it runs on."""

from common.i2c_bus import I2CBus
from strut.sensor import Sensor


class Board:
    """Base of boards: pins, parts and habits."""

    I2C_ID = 0
    I2C_SDA = 0
    I2C_SCL = 0
    I2C_HZ = 400_000
    STOP_PIN = 0  # normally closed contact to ground: pressed or cut reads 1
    NODELAY = True  # the network driver understands TCP_NODELAY
    POWER_SAVE_OFF = True  # the WiFi driver takes config(pm=...)

    def open_bus(self) -> I2CBus:
        """The bus of sensors and converters."""
        return I2CBus(self.I2C_ID, self.I2C_SCL, self.I2C_SDA, self.I2C_HZ)

    def open_sensor(self, bus: I2CBus) -> Sensor:
        """The board's IMU."""
        raise NotImplementedError

    def power_up(self, bus: I2CBus) -> None:
        """Switch on what lies between power and sensors; raises BusError."""

    def battery_mv(self, bus: I2CBus) -> int | None:
        """Battery voltage [mV], None without a gauge; raises BusError."""
        return None
