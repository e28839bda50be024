"""What a strut needs from an IMU driver; each driver also says how its counts become SI units."""

from common.i2c_bus import I2CBus

G = 9.80665  # m/s^2, standard gravity
DEGREE = 0.017453292519943295  # rad
RAW_SIZE = 14
MAX_READ = 8  # samples that one read may bring


class SensorError(Exception):
    """The sensor does not answer as it should; the text goes into the birth message."""


class Sensor:
    """Base of drivers. Scales are per count: accel_scale [m/s^2], gyro_scale [rad/s]; temperature [degrees Celsius]
    is raw * temp_scale + temp_offset."""

    name = ""
    rate_hz = 0.0
    accel_scale = 0.0
    gyro_scale = 0.0
    temp_scale = 0.0
    temp_offset = 0.0

    def __init__(self, bus: I2CBus) -> None:
        self.bus = bus
        self.overflowed = False  # the FIFO has lost samples; cleared by whoever reports it

    async def setup(self, accel_range_g: int, gyro_range_dps: int) -> None:
        """Reset, identify and configure; raises SensorError or BusError."""
        raise NotImplementedError

    def read(self, out: bytearray) -> int:
        """Take samples from the FIFO, oldest first: ax ay az gx gy gz temperature, int16 little endian, 14 bytes each
        into `out` (room for MAX_READ of them). Returns how many; raises BusError."""
        raise NotImplementedError
