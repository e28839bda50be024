"""`network` of a virtual board: a station that joins at once unless the simulation has taken the network away."""

import registers

STA_IF = 0
STAT_IDLE = 1000
STAT_CONNECTING = 1001
STAT_GOT_IP = 1010
STAT_NO_AP_FOUND = 201
STAT_WRONG_PASSWORD = 202


class WLAN:
    PM_NONE = 0

    def __init__(self, interface: int = STA_IF) -> None:
        self._active = False
        self._asked = False
        self._password = ""

    def active(self, on=None):
        if on is None:
            return self._active
        self._active = bool(on)
        self._asked = self._asked and self._active

    def config(self, **options) -> None:
        pass

    def connect(self, ssid: str, password: str = "") -> None:
        self._asked = True
        self._password = password

    def disconnect(self) -> None:
        self._asked = False

    def isconnected(self) -> bool:
        return self._active and self._asked and self._password != "wrong" and registers.network_up()

    def status(self, what: str = ""):
        if what == "rssi":
            return -50
        if not self._asked:
            return STAT_IDLE
        if self._password == "wrong":
            return STAT_WRONG_PASSWORD
        return STAT_GOT_IP if registers.network_up() else STAT_CONNECTING
