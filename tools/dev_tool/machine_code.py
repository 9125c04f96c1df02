"""Of the CUDA kernels' machine code, as nvdisasm prints it: what a trip through a kernel's loop over tiles takes at
least. Nothing is run: a trip is the way through the loop with the most products and, of those, the fewest other
instructions, which is that of a tile that no mask touches."""

import re
from typing import NamedTuple, Optional

PRODUCTS = ("HMMA", "HGMMA")
MATRIX_LOADS = ("LDSM",)


class Instruction(NamedTuple):
    opcode: str
    target: Optional[str]  # the label that it may jump to
    goes_on: bool  # or may not jump


class Trip(NamedTuple):
    products: int
    loads: int
    others: int


def functions(text):
    """{kernel: (its instructions, {label: the number of the instruction behind it})}"""
    found, now = {}, None
    for line in text.splitlines():
        if begun := re.match(r"\s*\.text\.(\S+?):", line):
            now = found.setdefault(begun[1], ([], {}))
        elif now and (label := re.match(r"(\.L_\w+):", line)):
            now[1][label[1]] = len(now[0])
        elif now and (code := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(@!?U?P[\dT]+\s+)?([A-Z][A-Z0-9]*)(.*)", line)):
            guarded, opcode, operands = bool(code[1]), code[2], code[3]
            target = re.search(r"`\((\.L_\w+)\)", operands) if opcode == "BRA" else None
            # A branch may ask for a predicate among its operands too.
            goes_on = guarded or opcode not in ("BRA", "EXIT", "RET") or bool(re.search(r"\s!?U?P[\dT]\s*,", operands))
            now[0].append(Instruction(opcode, target and target[1], goes_on))
    return found


def loops(code, labels):
    """(first, last) of every loop: from where a branch goes back to, to the branch."""
    return [(labels[one.target], n) for n, one in enumerate(code)
            if one.target and labels.get(one.target, len(code)) <= n]


def trip_through(code, labels, first, last):
    """The Trip from `first` to the branch `last`, without going back on the way; None if there is none."""
    best = {first: Trip(0, 0, 0)}
    for n in range(first, last + 1):
        if n not in best:
            continue
        one, so_far = code[n], best[n]
        with_it = Trip(so_far.products + (one.opcode in PRODUCTS), so_far.loads + (one.opcode in MATRIX_LOADS),
                       so_far.others + (one.opcode not in (*PRODUCTS, *MATRIX_LOADS, "NOP")))
        if n == last:
            return with_it
        for to in ({n + 1} if one.goes_on else set()) | ({labels[one.target]} if one.target in labels else set()):
            if n < to and (to not in best or rank(with_it) > rank(best[to])):
                best[to] = with_it
    return None


def rank(trip):
    return trip.products, -trip.others


def trip_of(code, labels):
    """Of the loop over tiles: the one with the most products on its way, the innermost of several."""
    trips = [trip_through(code, labels, first, last) for first, last in loops(code, labels)]
    return max((one for one in trips if one and one.products), key=rank, default=None)
