"""CRC-32C (polynomial 0x1EDC6F41, reflected), which ends every frame."""

import numpy

_POLYNOMIAL = 0x82F63B78
_LANES = 1024  # of a long text, side by side


def _byte_table():
    table = numpy.arange(256, dtype=numpy.uint32)
    for _ in range(8):
        table = numpy.where(table & 1, (table >> 1) ^ numpy.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(numpy.uint32)


_TABLE = _byte_table()
_LIST = _TABLE.tolist()


def _after(state, data):
    """The register after some bytes, one by one."""
    for byte in data:
        state = _LIST[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state


def _times(columns, state):
    """A linear map of the register, one image for each bit, of a state."""
    out = 0
    for bit in range(32):
        if state >> bit & 1:
            out ^= columns[bit]
    return out


def _zeros(count):
    """What `count` bytes of zero do to the register, as a linear map."""
    power = [_after(1 << bit, b"\0") for bit in range(32)]
    out = [1 << bit for bit in range(32)]
    while count:
        if count & 1:
            out = [_times(power, column) for column in out]
        power = [_times(power, column) for column in power]
        count >>= 1
    return out


def crc32c(data):
    """Of bytes. Long ones are cut into lanes that numpy steps through side by side: the register is
    linear in what it held and in the bytes, so that the lanes' registers can be put together."""
    data = bytes(data)
    lane = len(data) // _LANES
    state = 0xFFFFFFFF
    if lane >= 16:
        lanes = numpy.frombuffer(data, numpy.uint8, lane * _LANES).reshape(_LANES, lane).T
        states = numpy.zeros(_LANES, numpy.uint32)
        for column in lanes:
            states = _TABLE[(states ^ column) & 0xFF] ^ (states >> 8)
        across = _zeros(lane)
        for one in states.tolist():
            state = _times(across, state) ^ one
        data = data[lane * _LANES:]
    return _after(state, data) ^ 0xFFFFFFFF
