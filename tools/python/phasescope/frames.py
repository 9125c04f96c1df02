"""The frames that pass between a program and a worker: docs/protocol.md has their bytes."""

import json
import math
import mmap
import os
import struct

import numpy

from .crc32c import crc32c

MAGIC = b"\x89PSC\r\n\x1a\n"
VERSION = 1
HELLO, REQUEST, PROGRESS, RESULT, ERROR, CANCEL, HEARTBEAT, FATAL, CLOSING = range(1, 10)
_PREAMBLE = struct.Struct("<8sHHHHQIIQI")
PREAMBLE_BYTES = _PREAMBLE.size
_ALIGNED = 64

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
           "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}


class FrameError(RuntimeError):
    """Bytes that are no frame; nothing after them can be read."""


def encode(kind, request, body):
    """A frame without tensors, of a body that plain() made."""
    header = json.dumps({"body": body}, allow_nan=False).encode()
    fields = [MAGIC, VERSION, kind, 0, 0, request, len(header), 0, 0]
    preamble = _PREAMBLE.pack(*fields, 0)[:-4]
    return preamble + struct.pack("<I", crc32c(preamble)) + header + struct.pack("<I", crc32c(header))


def plain(value, name="a parameter"):
    """What JSON has for a value: arrays (numpy's, and tensors), sets and tuples are lists, paths are
    texts, and numbers that are not finite the words that the protocol has for them. What a request
    cannot hold is refused here: a worker that cannot read a frame ends, and all its models with it."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "nan" if value != value else "inf" if value > 0 else "-inf"
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} is no UTF-8, in which the worker is asked (of a file: rename it, or give a link "
                             "to it that has another name)") from None
        return value
    if isinstance(value, dict):
        return {plain(str(key), name): plain(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    if isinstance(value, (list, tuple, range)):
        return [plain(item, name) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), name)
    raise TypeError(f"{name} cannot be of the type {type(value).__name__}")


class Preamble:
    """The first 44 bytes of a frame."""

    def __init__(self, data):
        magic, version, kind, flags, _, request, header, _, payload, crc = _PREAMBLE.unpack(data)
        if magic != MAGIC or crc32c(data[:-4]) != crc:
            raise FrameError("what came from the worker is no frame")
        if version != VERSION:
            raise FrameError(f"the worker speaks version {version} of the protocol, this module {VERSION}")
        self.kind, self.request, self.has_file = kind, request, bool(flags & 1)
        self.header_bytes, self.payload_bytes = header, payload


def decode(preamble, rest, descriptor=None):
    """(body, {name: array}) of the bytes after a preamble; takes the descriptor of a memory file."""
    if struct.unpack("<I", rest[-4:])[0] != crc32c(rest[:-4]):
        raise FrameError("a frame from the worker was damaged on its way")
    header = json.loads(rest[:preamble.header_bytes])
    payload = memoryview(rest)[preamble.header_bytes:-4]
    mapped = _mapped(descriptor)
    places = {False: 0, True: 0}
    tensors = {}
    for entry in header.get("tensors", []):
        in_file = bool(entry.get("file"))
        begin = -(-places[in_file] // _ALIGNED) * _ALIGNED
        tensors[entry["name"]], count = _array(entry, mapped if in_file else payload, begin)
        places[in_file] = begin + count
    return header.get("body", {}), tensors


def _mapped(descriptor):
    if descriptor is None:
        return b""
    try:
        return mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)


def _array(entry, data, begin):
    """The array of an entry, without a copy but for bfloat16, which numpy has not: it becomes float32,
    exactly."""
    shape = entry["shape"]
    count = int(numpy.prod(shape, dtype=numpy.int64))
    dtype = "<u2" if entry["dtype"] == "BF16" else _DTYPES[entry["dtype"]]
    array = numpy.frombuffer(data, dtype, count, begin) if count else numpy.empty(0, dtype)
    size = array.nbytes
    if entry["dtype"] == "BF16":
        array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array.reshape(shape), size
