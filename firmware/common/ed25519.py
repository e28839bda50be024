"""Verification of Ed25519 signatures (RFC 8032, section 5.1.7) of 32-byte messages, slowly but without stopping the board.

Large integers come with the interpreter, SHA-512 does not: one block of it is computed here, which is all that a message of
32 bytes needs. Constants of SHA-512 are derived from their definition (FIPS 180-4, sections 4.2.3 and 5.3.5) when they are
needed, not kept.
"""

import asyncio

P = (1 << 255) - 19
L = (1 << 252) + 27742317777372353535851937790883648493  # order of the base point
MASK = (1 << 64) - 1
TURN = 8  # doublings between two chances for the rest of the board

D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)  # of -1

# Points are in extended coordinates (X, Y, Z, T) with x = X/Z, y = Y/Z, T = XY/Z.


def _root(value: int, power: int, root: int) -> int:
    """Integer root by Newton's method, from any `root` above it."""
    while True:
        lower = ((power - 1) * root + value // root ** (power - 1)) // power
        if lower >= root:
            return root
        root = lower


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


async def sha512(message: bytes) -> bytes:
    """SHA-512 of at most 111 bytes: one block."""
    block = message + b"\x80" + bytes(119 - len(message)) + (8 * len(message)).to_bytes(8, "big")
    w = [int.from_bytes(block[8 * i : 8 * i + 8], "big") for i in range(16)]
    primes = _primes(80)
    start = [_root(prime << 128, 2, 5 << 64) & MASK for prime in primes[:8]]  # the 8th prime is 19, the 80th 409
    a, b, c, d, e, f, g, h = start
    for i in range(80):
        if i > 15:
            x, y = w[1], w[14]
            s0 = (x >> 1 | x << 63) ^ (x >> 8 | x << 56) ^ x >> 7
            s1 = (y >> 19 | y << 45) ^ (y >> 61 | y << 3) ^ y >> 6
            w.append((w.pop(0) + (s0 & MASK) + w[8] + (s1 & MASK)) & MASK)
        k = _root(primes[i] << 192, 3, 8 << 64) & MASK
        s1 = ((e >> 14 | e << 50) ^ (e >> 18 | e << 46) ^ (e >> 41 | e << 23)) & MASK
        t1 = h + s1 + (e & f ^ (e ^ MASK) & g) + k + w[min(i, 15)]
        s0 = ((a >> 28 | a << 36) ^ (a >> 34 | a << 30) ^ (a >> 39 | a << 25)) & MASK
        t2 = s0 + (a & b ^ a & c ^ b & c)
        a, b, c, d, e, f, g, h = (t1 + t2) & MASK, a, b, c, (d + t1) & MASK, e, f, g
        if not i % TURN:
            await asyncio.sleep_ms(0)
    end = (a, b, c, d, e, f, g, h)
    return b"".join([((x + y) & MASK).to_bytes(8, "big") for x, y in zip(start, end)])


def _add(p: tuple[int, int, int, int], q: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * D * p[3] % P * q[3] % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def _double(p: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    a = p[0] * p[0] % P
    b = p[1] * p[1] % P
    c = 2 * p[2] * p[2] % P
    h = a + b
    e = h - (p[0] + p[1]) * (p[0] + p[1]) % P
    g = a - b
    f = c + g
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def _decode(data: bytes) -> tuple[int, int, int, int] | None:
    """The point that 32 bytes name (section 5.1.3), None when they name none."""
    y = int.from_bytes(data, "little")
    sign = y >> 255
    y &= (1 << 255) - 1
    if y >= P:
        return None
    u = (y * y - 1) % P
    v = (D * y * y + 1) % P
    v3 = v * v % P * v % P
    x = u * v3 % P * pow(u * v3 % P * v3 % P * v % P, (P - 5) // 8, P) % P
    if (v * x * x - u) % P:
        x = x * ROOT % P
        if (v * x * x - u) % P:
            return None
    if not x and sign:
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


async def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` (64 bytes) of the 32-byte `message` was made with the private half of `public` (32 bytes)."""
    if len(public) != 32 or len(message) != 32 or len(signature) != 64:
        return False
    s = int.from_bytes(signature[32:], "little")
    point = _decode(public)
    if s >= L or point is None:
        return False
    h = int.from_bytes(await sha512(signature[:32] + public + message), "little") % L
    y = 4 * pow(5, P - 2, P) % P  # the base point has y = 4/5 and an even x
    base = _decode(y.to_bytes(32, "little"))
    assert base is not None
    minus = (P - point[0], point[1], 1, P - point[3])
    table = (base, minus, _add(base, minus))
    r = (0, 1, 1, 0)
    for bit in range(252, -1, -1):  # s B - h A, both at once
        r = _double(r)
        index = (s >> bit & 1) | (h >> bit & 1) << 1
        if index:
            r = _add(r, table[index - 1])
        if not bit % TURN:
            await asyncio.sleep_ms(0)
    inverse = pow(r[2], P - 2, P)
    await asyncio.sleep_ms(0)
    y = r[1] * inverse % P | (r[0] * inverse % P & 1) << 255
    return y.to_bytes(32, "little") == signature[:32]
