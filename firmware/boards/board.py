"""What an application needs to know of the board it runs on."""

from common.i2c_bus import I2CBus
from strut.sensor import Sensor


class MotorPins:
    """One motor: the bridge's two inputs, the encoder's two phases, the bridge's current output."""

    def __init__(self, in1: int, in2: int, phase_a: int, phase_b: int, current: int) -> None:
        self.in1 = in1
        self.in2 = in2
        self.phase_a = phase_a
        self.phase_b = phase_b
        self.current = current


class Board:
    """Base of boards: pins, parts and habits."""

    I2C_ID = 0
    I2C_SDA = 0
    I2C_SCL = 0
    I2C_HZ = 400_000
    STOP_PIN = 0  # normally closed contact to ground: pressed or cut reads 1
    NODELAY = True  # the network driver understands TCP_NODELAY
    POWER_SAVE_OFF = True  # the WiFi driver takes config(pm=...)
    MOTORS: tuple[MotorPins, ...] = ()  # none: the board has too few pins for the motor application

    def at_end(self) -> None:
        """However the application ends: an actuator application puts its safe state here."""

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
