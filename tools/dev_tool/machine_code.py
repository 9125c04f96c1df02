"""Of the CUDA kernels' machine code, as nvdisasm prints it: what a trip through a kernel's loop over tiles takes at
least. Nothing is run: a trip is a way through the loop with all products of a tile and, of those, the fewest other
instructions, which is that of a tile that no mask touches. Where a branch chooses between products, a way may have as
many and still skip matrix loads that it needs, so a trip must have all of those too."""

import re
from typing import NamedTuple, Optional

PRODUCTS = ("HMMA", "HGMMA")
MATRIX_LOADS = ("LDSM",)
# Loads and stores of single numbers of shared memory, with the turns that a warp's take: 128 bytes each.
NUMBERS = ("LDS", "STS", "ATOMS")
TURNS = {"64": 2, "128": 4}
SPECIAL = ("MUFU",)


class Instruction(NamedTuple):
    opcode: str
    target: Optional[str]  # the label that it may jump to
    goes_on: bool  # or may not jump
    modifiers: tuple = ()  # of the opcode: ("64",)
    guarded: bool = False  # by a predicate


class Trip(NamedTuple):
    products: int
    loads: int
    others: int
    turns: int = 0  # of shared memory, of the others
    special: int = 0  # of the others
    doubles: int = 0  # of the others: stores of two numbers, through which alone a table's gradient is summed


def functions(text):
    """{kernel: (its instructions, {label: the number of the instruction behind it})}"""
    found, now = {}, None
    for line in text.splitlines():
        if begun := re.match(r"\s*\.text\.(\S+?):", line):
            now = found.setdefault(begun[1], ([], {}))
        elif now and (label := re.match(r"(\.L_\w+):", line)):
            now[1][label[1]] = len(now[0])
        elif now and (code := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(@!?U?P[\dT]+\s+)?([A-Z][A-Z0-9]*)((?:\.\w+)*)(.*)",
                                       line)):
            guarded, opcode, modifiers, operands = bool(code[1]), code[2], code[3], code[4]
            target = re.search(r"`\((\.L_\w+)\)", operands) if opcode == "BRA" else None
            # A branch may ask for a predicate among its operands too.
            goes_on = guarded or opcode not in ("BRA", "EXIT", "RET") or bool(re.search(r"\s!?U?P[\dT]\s*,", operands))
            if opcode in PRODUCTS and re.match(r"\s+RZ,", operands):
                opcode = "FENCE"  # ptxas lets a product that leaves nothing wait for others
            now[0].append(Instruction(opcode, target and target[1], goes_on, tuple(modifiers.split(".")[1:]), guarded))
    return found


def loops(code, labels):
    """(first, last) of every loop: from where a branch goes back to, to the branch."""
    return [(labels[one.target], n) for n, one in enumerate(code)
            if one.target and labels.get(one.target, len(code)) <= n]


def trip_of_one(one):
    """Of an instruction alone; of a product that is not made, which is issued all the same where a predicate guards it."""
    turns = next((TURNS[word] for word in one.modifiers if word in TURNS), 1) if one.opcode in NUMBERS else 0
    return Trip(products=int(one.opcode in PRODUCTS), loads=int(one.opcode in MATRIX_LOADS),
                others=int(one.opcode not in (*PRODUCTS, *MATRIX_LOADS, "NOP")), turns=turns,
                special=int(one.opcode in SPECIAL), doubles=int(one.opcode == "STS" and "64" in one.modifiers))


def added(trips, more, limits):
    """{(products, loads, stores of two numbers): the Trip with the fewest others} of trips with one more of `more` each,
    that have no more products and loads than `limits`."""
    found = {}
    for trip in trips:
        for one in more:
            keep(found, Trip(*map(sum, zip(trip, one))), limits)
    return found


def keep(trips, trip, limits):
    key = trip.products, trip.loads, trip.doubles
    within = trip.products <= limits[0] and trip.loads <= limits[1]
    if within and (key not in trips or trip.others < trips[key].others):
        trips[key] = trip


def trips_through(code, labels, first, last, limits):
    """As added() has them, from `first` to the branch `last`, without going back on the way."""
    targets = {labels[one.target] for one in code[first:last + 1] if one.target in labels}
    ways, straight, so_far = {first: {(0, 0, 0): Trip(0, 0, 0)}}, Trip(0, 0, 0), None
    for n in range(first, last + 1):
        one = code[n]
        if so_far is None or n in targets:  # what came here in a straight line joins the others
            for trip in added(so_far.values(), [straight], limits).values() if so_far is not None else ():
                keep(ways.setdefault(n, {}), trip, limits)
            so_far, straight = ways.pop(n, None), Trip(0, 0, 0)
            if so_far is None:
                continue
        if one.opcode in PRODUCTS and one.guarded:
            so_far = added(so_far.values(), [straight], limits)
            so_far, straight = added(so_far.values(), [Trip(1, 0, 0), Trip(0, 0, 1)], limits), Trip(0, 0, 0)
        else:
            straight = Trip(*map(sum, zip(straight, trip_of_one(one))))
        if n == last:
            return added(so_far.values(), [straight], limits)
        if one.target in labels and labels[one.target] > n:
            for trip in added(so_far.values(), [straight], limits).values():
                keep(ways.setdefault(labels[one.target], {}), trip, limits)
        if not one.goes_on:
            so_far = None
    return {}


def trip_of(code, labels, products, loads, summing=False):
    """Of a loop with a way of so many products, and as many matrix loads or, where some stay in registers, the most below:
    the innermost of several, which has the fewest others; None if there is none. `summing`: the way on which a table's
    gradient is summed."""
    enough = [(first, last) for first, last in loops(code, labels)
              if sum(one.opcode in PRODUCTS for one in code[first:last + 1]) >= products]
    found = [trip for first, last in enough
             for trip in trips_through(code, labels, first, last, (products, loads)).values() if trip.products == products]
    if summing:
        most = max((trip.doubles for trip in found), default=0)
        found = [trip for trip in found if trip.doubles == most]
    return max(found, key=lambda trip: (trip.loads, -trip.others), default=None)
