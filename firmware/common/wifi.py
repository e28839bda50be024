"""The WiFi state machine: every wait is bounded, every failure says why, and it can always start again."""

import asyncio

import network

JOIN_MS = 15_000
POLL_MS = 100


class WiFiError(Exception):
    """Joining failed; the text is for the log and the birth message."""


class WiFi:
    """One station interface. `state` is idle, joining, joined or failed."""

    def __init__(self, ssid: str, password: str, power_save_off: bool) -> None:
        self._ssid = ssid
        self._password = password
        self._power_save_off = power_save_off
        self._station = network.WLAN(network.STA_IF)
        self.state = "idle"

    def joined(self) -> bool:
        """True while the network is there."""
        return bool(self._station.isconnected())

    async def join(self) -> None:
        """Join the network unless it is there already; raises WiFiError within JOIN_MS and a little."""
        if self.joined():
            self.state = "joined"
            return
        self.state = "joining"
        try:
            self._station.active(True)
            if self._power_save_off:
                self._station.config(pm=network.WLAN.PM_NONE)  # power saving delivers data in bursts
            self._station.connect(self._ssid, self._password)
            for _ in range(JOIN_MS // POLL_MS):
                if self.joined():
                    self.state = "joined"
                    return
                problem = self._problem()
                if problem:
                    raise WiFiError(problem)
                await asyncio.sleep_ms(POLL_MS)
            raise WiFiError("no answer from %s" % self._ssid)
        except OSError as error:
            raise WiFiError(str(error)) from None
        finally:
            if self.state != "joined":
                self.state = "failed"
                await self._restart()

    def rssi(self) -> int | None:
        """Signal strength [dBm], None where the chip does not tell."""
        try:
            return int(self._station.status("rssi"))
        except (OSError, ValueError, TypeError):
            return None

    def _problem(self) -> str:
        status = self._station.status()
        for name, words in (("STAT_WRONG_PASSWORD", "wrong password"), ("STAT_NO_AP_FOUND", "network not found")):
            if status == getattr(network, name, None):  # not every port has these
                return words
        return ""

    async def _restart(self) -> None:
        try:
            self._station.disconnect()
            self._station.active(False)
        except OSError:
            pass
        await asyncio.sleep_ms(POLL_MS)
