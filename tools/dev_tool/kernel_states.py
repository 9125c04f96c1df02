"""What is known of each CUDA kernel, for docs/cuda.md: measured on a device, where kernels/cuda/verified.inc has it;
computed from counts, by the tests that are named here; or not yet."""

import re

from . import bench_import

BEGIN, END = "<!-- states, by ./dev roofline -->", "<!-- end of states -->"
NOT_YET, COMPUTED = "not yet", "computed from counts"
# Kernels whose registers and spills tests/build/cuda_registers_test.py holds; of some one pass alone.
HELD = {"plain": "", "table": "", "table_multiplied": "forward", "tapa": "", "tape": "backward",
        "plain_wide": "", "table_wide": "", **{name: "" for name in bench_import.HOPPER}}
# Cases of BankConflicts (cuda_emulation_test) that compute a kernel's accesses of shared memory, all of them: a kernel that
# is not here has arrays of which nothing is computed (fire and those with numbers of tokens), or is new.
TILES = ("AreNoneInTiles", "AreNoneWhereAccumulatorsBecomeOperands", "AreNoneInSumsOverDiagonals",
         "AreTwoWhereAccumulatorsAreStored", "AreNoneAlongRows", "AreNoneInEntriesAndNumbersOfRows")
TABLES = (*TILES, "AreNoneInTableSums")
PANELS = (*TILES, "AreNoneWhereBoxesArrive", "AreNoneWhereProductsReadPanels", "AreNoneWhereQueriesAreLoadedFromPanels")
CONFLICTS = {**dict.fromkeys(("plain", "plain_wide", "tapa", "tape", "query_table", "clamp"), TILES),
             **dict.fromkeys(("table", "table_wide", "table_multiplied"), TABLES),
             "cape": (*TILES, "AreNoneInPairsOfCape", "AreTwoInSumsOfCapesWeights", "AreTwoInSumsOfSegments"),
             **dict.fromkeys(("hopper_plain", "hopper_tapa", "hopper_tape"), PANELS),
             "hopper_table": (*PANELS, "AreNoneInTableSums")}
# Whose speed is counted, by roofline.py; of CAPE what its kernels hand each other by memory alone.
SPEED_COUNTED = {**dict.fromkeys(("plain", "table", "tapa", "tape", "hopper_plain", "hopper_table", "hopper_tapa", "hopper_tape"),
                           ""), "cape": "its memory's traffic"}


def measured():
    """{kernel: devices that it has passed on, "8.0, 9.0"}"""
    found = {}
    for name, capability in re.findall(r'\{"(\w+)", (\d+)\}', bench_import.LIST.read_text(encoding="utf-8")):
        found.setdefault(name, set()).add(int(capability) / 10)
    return {name: ", ".join(f"{one:.1f}" for one in sorted(some)) for name, some in found.items()}


def computed(kernel, some):
    """Of a kernel of `some`, with the part that this is said of; not yet, of others."""
    if kernel not in some:
        return NOT_YET
    return f"{COMPUTED} ({some[kernel]})" if some[kernel] else COMPUTED


def row(kernel, devices):
    by_device = f"measured on {devices[kernel]}" if kernel in devices else ""
    return " | ".join([kernel, by_device or NOT_YET, computed(kernel, HELD),
                       COMPUTED if kernel in CONFLICTS else NOT_YET, by_device or computed(kernel, SPEED_COUNTED)])


def table():
    devices = measured()
    rows = [f"| {row(kernel, devices)} |" for kernel in [*bench_import.KINDS, *bench_import.HOPPER]]
    return "\n".join(["| kernel | results on a device | registers and spills | bank conflicts | speed |",
                      "|---|---|---|---|---|", *rows])


def with_states(page):
    begin, end = page.index(BEGIN), page.index(END)
    return f"{page[:begin]}{BEGIN}\n{table()}\n{page[end:]}"
