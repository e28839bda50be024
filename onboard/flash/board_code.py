"""The code that runs on the board while it is flashed: names, hashes and moves of files, in MicroPython."""

SURVEY = """
import sys, os, json, machine
i = sys.implementation
v = os.statvfs("/")
print(json.dumps({
    "platform": sys.platform, "machine": getattr(i, "_machine", ""), "version": list(i.version)[:3],
    "mpy": getattr(i, "_mpy", 0), "chip_id": "".join("%02x" % x for x in machine.unique_id()),
    "free": v[1] * v[3], "running": "common.watchdog" in sys.modules,
}))
"""

RESET = "import os, machine\ntry:\n    os.remove('/hold')\nexcept OSError:\n    pass\nmachine.reset()\n"
HOLD_AND_RESET = "open('/hold', 'w').close()\nimport machine\nmachine.reset()\n"

HELPERS = """
import os, json, hashlib, binascii
def _hash(path):
    digest = hashlib.sha256()
    part = bytearray(1024)
    view = memoryview(part)
    with open(path, "rb") as file:
        while True:
            n = file.readinto(part)
            if not n:
                return binascii.hexlify(digest.digest()).decode()
            digest.update(view[:n])
def _walk(folder, found):
    try:
        entries = list(os.ilistdir(folder))
    except OSError:
        return found
    for entry in entries:
        path = folder + "/" + entry[0]
        if entry[1] & 0x4000:
            _walk(path, found)
        else:
            found[path] = _hash(path)
    return found
def _look(folders, files):
    found = {}
    for folder in folders:
        _walk(folder, found)
    for path in files:
        try:
            found[path] = _hash(path)
        except OSError:
            pass
    print(json.dumps(found))
def _is_folder(path):
    try:
        return os.stat(path)[0] & 0x4000 != 0
    except OSError:
        return False
def _no_folder(path):
    if _is_folder(path):
        for entry in list(os.ilistdir(path)):
            inner = path + "/" + entry[0]
            if entry[1] & 0x4000:
                _no_folder(inner)
            else:
                os.remove(inner)
        os.rmdir(path)
def _parents(path):
    at = path.find("/", 1)
    while at > 0:
        try:
            os.mkdir(path[:at])
        except OSError as error:
            if error.errno != 17:
                raise
            if not _is_folder(path[:at]):
                os.remove(path[:at])
                os.mkdir(path[:at])
        at = path.find("/", at + 1)
def _begin(path):
    global _file
    _parents(path)
    _no_folder(path)
    _file = open(path, "wb")
def _more(text):
    _file.write(binascii.a2b_base64(text))
def _copy(source, path):
    _begin(path)
    part = bytearray(1024)
    view = memoryview(part)
    with open(source, "rb") as file:
        while True:
            n = file.readinto(part)
            if not n:
                break
            _file.write(view[:n])
def _end(staged, path, digest):
    _file.close()
    if _hash(staged) != digest:
        os.remove(staged)
        raise ValueError("hash of " + path)
    if hasattr(os, "sync"):
        os.sync()
    _no_folder(path)
    os.rename(staged, path)
def _drop(paths):
    for path in paths:
        try:
            os.remove(path)
        except OSError:
            pass
"""
