"""The link's state machine: WiFi, TCP, MQTT, online; whatever fails, it closes, waits a little and starts again."""

import asyncio
import json

from common import frames, mqtt_packets, ticks
from common.connection import Connection, ConnectionLost
from common.identity import Identity, section, text
from common.wifi import WiFi, WiFiError

ANSWER_MS = 5000  # longest wait for CONNACK, SUBACK, PUBACK
RETRY_MS = 250
RETRY_MAX_MS = 4000
SETTLED_MS = 2000  # of a session: what the host repeats every second has been heard by then
STABLE_MS = 5000  # a session this long makes the next retry a quick one again


class Link:
    """Publishes and receives for one board. Subclass and override `birth` and `on_message`.

    `beat` is called on every turn of the state machine, connected or not: it feeds the watchdog. The clock
    synchronisation is answered here, where the receive time is known best.
    """

    def __init__(self, identity: Identity, leaves: list[str], nodelay: bool, power_save_off: bool) -> None:
        wifi = section(identity.settings, "wifi")
        broker = section(identity.settings, "broker")
        self.identity = identity
        self.wifi = WiFi(text(wifi, "ssid"), str(wifi.get("password", "")), power_save_off)
        self._host = text(broker, "host")
        self._port = int(str(broker.get("port", 1883)))
        self._user = str(broker.get("user", ""))
        self._password = str(broker.get("password", ""))
        self._tls = section(broker, "tls") or None
        self._keepalive_ms = int(str(broker.get("keepalive_s", 5))) * 1000
        self._nodelay = nodelay
        self._topics = {leaf: identity.topic(leaf).encode() for leaf in leaves}
        self._incoming = {identity.topic(leaf).encode(): leaf for leaf in leaves}
        self._connection: Connection | None = None
        self._error = ""
        self._packet_id = 0
        self._connack = -1
        self._subscribed = False
        self._unanswered = 0  # packets of ours that wait for SUBACK or PUBACK
        self._asked = 0
        self._heard = 0
        self.online = False
        self.settled = False  # this session has lasted for SETTLED_MS: what the host has to say of the robot is known
        self._birth_due = False
        self.sessions = 0
        self.said = ""  # last on the console: online, or why the last session ended or could not start

    def birth(self) -> dict[str, object]:
        """The birth message; override to add what the application knows."""
        return self.identity.birth()

    def on_message(self, leaf: str, payload: bytes, retained: bool, received: int) -> None:
        """A message on one of the subscribed leaves, received at ticks `received`."""

    def beat(self) -> None:
        """The state machine has advanced."""

    def ready(self) -> bool:
        """Online with nothing waiting to be sent: a good moment for sensor data."""
        return self.online and self._connection is not None and not self._connection.pending

    def publish(self, leaf: str, payload: bytes | bytearray, retain: bool = False, qos: int = 0) -> bool:
        """Send now or not at all; False when there is no session or no room."""
        connection = self._connection
        if not self.online or connection is None:
            return False
        topic = self._topics.get(leaf)
        if topic is None:
            topic = self._topics[leaf] = self.identity.topic(leaf).encode()
        packet_id = self._next_id() if qos else 0
        try:
            sent = connection.send(mqtt_packets.publish(topic, payload, retain, packet_id))
        except ConnectionLost as lost:
            self._error = str(lost)
            return False
        if sent and qos:
            self._expect_answer()
        return sent

    def announce(self) -> bool:
        """Publish the birth message, retained; again from the next turn on when there is no room now."""
        self._birth_due = not self.publish("state", json.dumps(self.birth()).encode(), True, 1)
        return not self._birth_due

    async def run(self) -> None:
        """For ever: connect, serve, and start again."""
        retry_ms = RETRY_MS
        while True:
            self.beat()
            begun = ticks.now()
            try:
                await self.wifi.join()
                self.beat()
                await self._session()
            except (WiFiError, ConnectionLost, mqtt_packets.ProtocolError) as trouble:
                self._say(str(trouble))
            if ticks.diff(ticks.now(), begun) > STABLE_MS * 1000:
                retry_ms = RETRY_MS
            self.beat()
            await asyncio.sleep_ms(retry_ms)
            retry_ms = min(2 * retry_ms, RETRY_MAX_MS)

    def _say(self, state: str) -> None:
        if state != self.said:
            print("link:", state)  # for whoever has the console open: a person, or the flasher
        self.said = state

    async def _session(self) -> None:
        connection = Connection(self._nodelay, self._tls)
        reading = None
        self._error = ""
        self._connack = -1
        self._subscribed = False
        self._unanswered = 0
        try:
            await connection.open(self._host, self._port, ANSWER_MS)
            self.beat()
            self._connection = connection
            self._heard = self._asked = ticks.now()
            reading = asyncio.create_task(self._read(connection))
            will = json.dumps({"v": 1, "online": False, "boot_id": self.identity.boot_id, "name": self.identity.name})
            connection.send(
                mqtt_packets.connect(
                    self.identity.unique_id,
                    self._keepalive_ms // 1000,
                    self._user,
                    self._password,
                    self.identity.topic("state"),
                    will.encode(),
                )
            )
            self._expect_answer()
            await self._until_online(connection)
            self._say("online")
            await self._serve(connection)
        finally:
            self.online = self.settled = False
            self._connection = None
            if reading is not None:
                reading.cancel()
            connection.close()

    async def _until_online(self, connection: Connection) -> None:
        while self._connack < 0:
            await self._turn(connection, 10)
        self._unanswered = 0
        if self._incoming:
            topics = [(topic.decode(), 1) for topic in self._incoming]
            connection.send(mqtt_packets.subscribe(self._next_id(), topics))
            self._expect_answer()
            while not self._subscribed:
                await self._turn(connection, 10)
        self.online = True
        self.sessions += 1
        self.announce()

    async def _serve(self, connection: Connection) -> None:
        begun = pinged = ticks.now()
        while True:
            await self._turn(connection, 5 if connection.pending else 100)
            if self._birth_due:
                self.announce()
            now = ticks.now()
            if not self.settled and ticks.diff(now, begun) >= SETTLED_MS * 1000:
                self.settled = True
            if ticks.diff(now, self._heard) > self._keepalive_ms * 1000:
                raise ConnectionLost("broker is silent")
            if ticks.diff(now, pinged) > self._keepalive_ms * 400:  # two chances within the keepalive
                pinged = now
                connection.send(mqtt_packets.PINGREQ_PACKET)
                if not self.wifi.joined():
                    raise ConnectionLost("WiFi is gone")

    async def _turn(self, connection: Connection, wait_ms: int) -> None:
        await asyncio.sleep_ms(wait_ms)
        self.beat()
        if self._error:
            raise ConnectionLost(self._error)
        connection.flush()
        if self._unanswered and ticks.diff(ticks.now(), self._asked) > ANSWER_MS * 1000:
            raise ConnectionLost("broker does not answer")

    async def _read(self, connection: Connection) -> None:
        reader = connection.reader()
        parser = mqtt_packets.Parser()
        try:
            while True:
                data = await reader.read(512)
                received = ticks.now()
                if not data:
                    raise ConnectionLost("closed by the broker")
                self._heard = received
                for packet in parser.feed(data):
                    self._take(connection, packet, received)
        except (OSError, ValueError, ConnectionLost, mqtt_packets.ProtocolError) as error:  # ValueError: a certificate
            self._error = str(error).strip() or "read failed"
        except MemoryError:
            self._error = "out of memory"

    def _take(self, connection: Connection, packet: mqtt_packets.Packet, received: int) -> None:
        if packet.kind == mqtt_packets.PUBLISH:
            publication = mqtt_packets.Publication(packet)
            if publication.packet_id:
                connection.send(mqtt_packets.puback(publication.packet_id))
            leaf = self._incoming.get(publication.topic)
            try:
                if packet.cut:
                    raise MemoryError
                if leaf == "sync/req":
                    self._answer_sync(publication.payload, received)
                elif leaf is not None:
                    self.on_message(leaf, publication.payload, publication.retained, received)
            except MemoryError:  # it has been acknowledged and will not come again; ending the session would bring it back
                print("link: too long a message on", leaf)
        elif packet.kind == mqtt_packets.CONNACK and len(packet.body) == 2:
            self._connack = code = packet.body[1]
            if code:  # now: the broker hangs up behind it, which would be said instead
                reasons = mqtt_packets.CONNACK_REASONS
                raise ConnectionLost(reasons[code] if code < len(reasons) else "refused")
        elif packet.kind == mqtt_packets.SUBACK:
            if 0x80 in packet.body[2:]:
                raise ConnectionLost("a subscription is refused")
            self._subscribed = True
            self._unanswered -= 1
        elif packet.kind == mqtt_packets.PUBACK:
            self._unanswered -= 1
        elif packet.kind != mqtt_packets.PINGRESP:
            raise mqtt_packets.ProtocolError("packet type %d" % packet.kind)

    def _answer_sync(self, payload: bytes, received: int) -> None:
        try:
            stamp = frames.decode_sync_request(payload)
        except frames.Refused:
            return
        self.publish("sync/rsp", frames.encode_sync_response(stamp, self.identity.boot_id, received, ticks.now()))

    def _next_id(self) -> int:
        self._packet_id = self._packet_id % 65535 + 1
        return self._packet_id

    def _expect_answer(self) -> None:
        if not self._unanswered:
            self._asked = ticks.now()
        self._unanswered += 1
