"""PNG files as small as they can be without another look: few colours by their number, lines packed well."""

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLORS = 256


def smaller(data):
    """The same picture, 8 bits RGB or RGBA, with a palette. Where it has more than 256 colours, the others
    become their nearest of those that numbered() keeps, which nobody sees."""
    width, height, channels, packed = parts(data)
    pixels = list(colors(unfiltered(zlib.decompress(packed), width, height, channels), channels))
    palette, number = numbered(pixels)
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        rows += bytes(number[color] for color in pixels[y * width:(y + 1) * width])
    return (SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) +
            chunk(b"PLTE", b"".join(palette)) + chunk(b"IDAT", zlib.compress(bytes(rows), 9)) + chunk(b"IEND", b""))


def parts(data):
    """Width, height, channels and the packed lines."""
    if data[:8] != SIGNATURE:
        raise ValueError("this is no PNG file")
    place, packed, header = 8, b"", None
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place:place + 8])
        body = data[place + 8:place + 8 + length]
        place += length + 12
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
    width, height, bits, kind, _, _, interlaced = header
    if bits != 8 or kind not in (2, 6) or interlaced:
        raise ValueError("only plain RGB and RGBA of 8 bits are read")
    return width, height, 3 if kind == 2 else 4, packed


def unfiltered(raw, width, height, channels):
    """The pixels' bytes: each line says by which of five rules it follows from what is before it."""
    length = width * channels
    above, out = bytearray(length), bytearray()
    for y in range(height):
        rule = raw[y * (length + 1)]
        line = bytearray(raw[y * (length + 1) + 1:(y + 1) * (length + 1)])
        for i in range(length) if rule else ():
            left = line[i - channels] if i >= channels else 0
            corner = above[i - channels] if i >= channels else 0
            line[i] = (line[i] + guessed(rule, left, above[i], corner)) & 255
        out += line
        above = line
    return bytes(out)


def guessed(rule, left, up, corner):
    if rule == 1:
        return left
    if rule == 2:
        return up
    if rule == 3:
        return (left + up) // 2
    nearest = left + up - corner
    distances = (abs(nearest - left), abs(nearest - up), abs(nearest - corner))
    return (left, up, corner)[distances.index(min(distances))]


def colors(pixels, channels):
    return (pixels[i:i + 3] for i in range(0, len(pixels), channels))


def numbered(pixels):
    """(the palette, the number of each colour in it). Of many colours the commonest are kept, and beside them
    again and again that which is farthest from all that are kept: without those a scale of colours, which has few
    pixels of each, would become bands of whatever is common elsewhere."""
    count = {}
    for color in pixels:
        count[color] = count.get(color, 0) + 1
    palette = sorted(count, key=lambda color: (-count[color], color))
    if len(palette) > COLORS:
        palette = palette[:COLORS // 2]
    number = {color: i for i, color in enumerate(palette)}
    rest = {color: min((distance(kept, color), i) for i, kept in enumerate(palette))
            for color in count if color not in number}
    while rest and len(palette) < COLORS:
        farthest = max(rest, key=lambda color: (rest[color][0], color))
        del rest[farthest]
        number[farthest] = len(palette)
        for color in rest:
            rest[color] = min(rest[color], (distance(farthest, color), len(palette)))
        palette.append(farthest)
    number.update({color: nearest for color, (_, nearest) in rest.items()})
    return palette, number


def distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b))


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
