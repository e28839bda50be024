"""The valves' analogue side: MCP4728 converters make the set-points, an ADS7828 reads the pressures back."""

from common.i2c_bus import I2CBus

DAC_ADDRESS = 0x60  # a second converter for channels 4..7 at 0x61
DAC_CHANNELS = 4
ADC_ADDRESS = 0x48
ADC_SINGLE_ENDED = 0x80
ADC_ALWAYS_ON = 0x0C  # internal reference and converter stay powered
CODE_MAX = 4095

UNIT_PA = 100.0  # one count of a set-point
SETPOINT_FULL_SCALE = 6000  # counts at the converter's full scale: a valve range of 0.6 MPa at 10 V
MEASURED_FULL_SCALE = 7000  # counts at the other converter's full scale: sensors reach 0.7 MPa


class ValveConverters:
    """Set-points out, pressures in, both in counts. Raises BusError."""

    def __init__(self, bus: I2CBus, channels: int) -> None:
        self._bus = bus
        self._channels = channels
        self._written: list[bytes | None] = [None] * ((channels + DAC_CHANNELS - 1) // DAC_CHANNELS)

    def write(self, setpoints: list[float]) -> None:
        """Output all set-points; a converter whose codes have not changed is left alone."""
        for chip in range(len(self._written)):
            codes = bytearray(2 * DAC_CHANNELS)
            for index in range(DAC_CHANNELS):
                channel = chip * DAC_CHANNELS + index
                code = 0
                if channel < self._channels:
                    code = int(setpoints[channel] * CODE_MAX / SETPOINT_FULL_SCALE + 0.5)
                    code = min(max(code, 0), CODE_MAX)
                codes[2 * index] = code >> 8  # fast write, power-down bits 0
                codes[2 * index + 1] = code & 0xFF
            data = bytes(codes)
            if data != self._written[chip]:
                self._written[chip] = None
                self._bus.send(DAC_ADDRESS + chip, data)
                self._written[chip] = data

    def forget(self) -> None:
        """After a bus failure nothing is known of the outputs: write them all next time."""
        self._written = [None] * len(self._written)

    def read(self, out: list[int]) -> None:
        """Pressures of all channels into `out` (channels,)."""
        raw = bytearray(2)
        for channel in range(self._channels):
            # Channel select of the ADS7828: even inputs are 0..3, odd ones 4..7.
            select = (channel >> 1) | (channel & 1) << 2
            self._bus.read_into(ADC_ADDRESS, ADC_SINGLE_ENDED | select << 4 | ADC_ALWAYS_ON, raw)
            code = (raw[0] & 0x0F) << 8 | raw[1]
            out[channel] = code * MEASURED_FULL_SCALE // CODE_MAX
