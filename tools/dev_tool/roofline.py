"""What the CUDA kernels can reach at most, computed from counts and from nothing measured: of a pair of tiles
(64 queries, 64 keys) how long each unit of a multiprocessor is busy, by the loops of kernels/cuda (forward_kernel.cuh,
tile_pair.cuh, backward_kernel.cuh, one_pass_kernel.cuh, forward_hopper.cuh, backward_hopper.cuh) and by the machine
code that the pinned nvcc makes of them. `./dev roofline` writes the tables of docs/cuda.md anew."""

import re

from .console import say
from .counted import COUNTED, UNITS, counted
from .kernel_states import with_states
from .paths import ROOT

PAGE = ROOT / "docs" / "cuda.md"
BEGIN, END = "<!-- computed by ./dev roofline -->", "<!-- end of what is computed -->"
ROWS = 64  # of a tile, 16 a warp
WARPS, COLUMNS = 4, 32  # columns of a chunk, backward
# Times 16 rows of a warp, which share what is loaded of the other operand, and keys that the forward kernel takes at a
# time, by D: two and a whole tile where registers do (kForwardBands, kQueryBands, kKeyBands, kWidth).
BANDS = {"forward": {64: 2, 128: 2}, "probes": {64: 2, 128: 2}, "dq": {64: 2, 128: 2}, "dkv": {64: 2, 128: 1}}
WIDTH = {"forward": {64: 64, 128: 32}, "probes": {64: 32, 128: 16}}
LOAD_BYTES, TURN_BYTES = 512, 128  # of an ldmatrix.x4, of a turn of a warp's single numbers
ONE_PASS_WARPS, ONE_PASS_TILES = 8, 2  # of a block of the backward pass in one kernel: its tiles of keys

# Multiprocessors, clock in GHz at which the maker's peak holds, dense bfloat16 flops a clock and multiprocessor, and
# the part of these that mma.sync reaches: on Hopper wgmma alone reaches all, and 0.62 is assumed here, not measured.
# Then the maker's bytes a second of memory, in 1e9 (A100 of 80 GB, all SXM).
HOPPER = ("H100", "H200")  # that have the Hopper form, whose products are wgmma
DEVICES = {"A100": (108, 1.41, 2048, 1.0, 2039), "H100": (132, 1.83, 4096, 0.62, 3350),
           "H200": (132, 1.83, 4096, 0.62, 4800)}
# A clock and multiprocessor: bytes of shared memory, results of the special-function unit, warps' instructions.
SHARED_BYTES, SPECIAL, ISSUED = 128, 16, 4
CODE = {"A100": "sm_80", "H100": "sm_90a", "H200": "sm_90a"}
# Kernels of a pass, by D where they are not the same. Where TAPE's gradients are of 128 channels dq has a kernel of its own.
PASSES = {
    "plain, forward": ("forward",),
    "plain, forward, all probes of a row": ("probes",),
    "plain, backward": ("one pass",),
    "plain, backward, dq by itself": ("dq", "dkv"),
    "plain, forward, Hopper form": ("hopper",),
    "plain, forward, Hopper form, all probes of a row": ("hopper probes",),
    "plain, backward, Hopper form": ("hopper one pass",),
    "table, forward": ("forward of table",),
    "table, backward": ("one pass of table",),
    "table, backward, with its gradient": ("one pass of table with its gradient",),
    "table, forward, Hopper form": ("hopper of table",),
    "table, backward, Hopper form": ("hopper one pass of table",),
    "table, backward, Hopper form, with its gradient": ("hopper one pass of table with its gradient",),
    "tapa, forward": ("forward of tapa",),
    "tapa, backward": ("one pass of tapa",),
    "tapa, forward, Hopper form": ("hopper of tapa",),
    "tape, forward": ("forward of tape",),
    "tape, backward": {64: ("one pass of tape",), 128: ("dq of tape", "dkv of tape")},
    "tape, forward, Hopper form": ("hopper of tape",),
}
GOALS = {"forward": 330, "backward": 280}  # TFLOP/s on an H100 at D 128
PROBES_GOAL = 1.35  # times the forward pass without
TIMES_PLAIN = {"table": 1.03, "tapa": 1.12, "tape": 1.33, "cape": 1.6}  # goals of the forward pass on a device
# Of CAPE, which gives and takes 4 bytes a score between its kernels: content scores written, read by the network, which
# writes scores, read by the forward pass.
CAPE_BYTES = 4 * 4


def kind(kernel):
    """Which kernel it is, whatever its score."""
    return kernel.split(" of ")[0]


def score(kernel):
    """"plain", "table", "tapa" or "tape"."""
    return kernel.split(" of ")[1].split()[0] if " of " in kernel else "plain"


def states(kernel):
    """Streams of values besides the one."""
    return int(score(kernel) == "tape")


def entries(kernel):
    """Numbers by distance that a tile's pairs have in shared memory: of 127 distances, with one more."""
    return 2 * ROWS if score(kernel) in ("table", "tapa") else 0


def bands(kernel, d):
    """Times 16 rows of a warp: one of scores with two dot products or states."""
    return BANDS[kind(kernel)][d] if score(kernel) in ("plain", "table") else 1


def width(kernel, d):
    """Keys that a forward kernel takes at a time."""
    if score(kernel) in ("plain", "table"):
        return WIDTH[kind(kernel)][d]
    return ROWS if score(kernel) == "tape" and d == 64 else ROWS // 2


def one_pass_loads(kernel, d):
    """Of one of eight warps, for a tile of queries and two of keys: 32 keys and 32 queries. What has two dot products is
    taken by 16 keys after the other, with the columns again, and has two gradients of a pair."""
    steps, groups, state, dots = d // 16, ROWS // 16, states(kernel), 2 if score(kernel) == "tapa" else 1
    scores = steps * (2 * 1 + 2 * 2) if dots == 2 else steps * (2 + 2)
    weights = (1 + state) * steps * (2 * 1 + 2 * 2)  # d_out . v: 16 keys after the other, with the columns again
    values = (1 + state) * groups * (2 + steps // 2)  # dv: of all queries and half of the channels
    keys = groups * (2 * dots + steps // 2)
    # dq: of a quarter of the channels
    return scores + weights + values + keys + ONE_PASS_TILES * groups * (2 * dots + steps // 4)


def loads(kernel, d):
    """ldmatrix.x4 of a warp for one tile and all tiles of rows of its block."""
    if kind(kernel) == "one pass":
        return one_pass_loads(kernel, d)
    steps, groups, rows, streams = d // 16, ROWS // 16, bands(kernel, d), 2 + states(kernel)
    if kind(kernel) in WIDTH:  # q again for each chunk of keys; keys and values once
        return (ROWS // width(kernel, d)) * steps * rows + streams * steps * groups
    # Scores and d_out . v: rows again for each chunk, and its columns.
    chunk = streams * steps * (rows + COLUMNS // 16)
    if kind(kernel) == "dkv" and rows == 2:
        # One chunk a warp; then weights and gradients of all queries, by half of the channels of d_out and q.
        return chunk + 2 * groups * (rows + steps // 2)
    sums = {"dq": 1, "dkv": streams}[kind(kernel)] * (COLUMNS // 16) * steps
    return (ROWS // COLUMNS) * (chunk + sums)


def tiles(kernel, d):
    """Of rows of a block: bands of keys are of one tile."""
    if kind(kernel) == "one pass":
        return ONE_PASS_TILES
    return 1 if kind(kernel) == "dkv" else bands(kernel, d)


def copied(kernel, d):
    """Bytes that cp.async or TMA writes to shared memory for the same: two tiles, states, and numbers by distance. In
    Hopper form of one pair: a tile comes for two groups, numbers for one."""
    of_tiles = (2 + states(kernel)) * ROWS * d * 2
    if is_hopper(kernel):
        return of_tiles / 2 + 4 * entries(kernel)
    return of_tiles + 4 * entries(kernel) * (ONE_PASS_TILES if kind(kernel) == "one pass" else bands_of_queries(kernel, d))


def bands_of_queries(kernel, d):
    return 1 if kind(kernel) == "dkv" else bands(kernel, d)


def products(kernel):
    """Of 64 x 64 x D, each 2 * 64 * 64 * D flops; two mma of 16 x 8 x 16 of each part for each ldmatrix of columns."""
    plain = {"dq": 3, "dkv": 4, "one pass": 5, "hopper one pass": 5}.get(kind(kernel), 2)
    return plain + states(kernel) * (2 if kind(kernel) in ("dkv", "one pass") else 1)


def warps(kernel):
    """Of a block, that share its pairs of tiles; in Hopper form of a group, which has pairs of its own."""
    return ONE_PASS_WARPS if kind(kernel) == "one pass" else WARPS


def warp_products(kernel, d):
    """mma of 16 x 8 x 16, or wgmma of 64 x 64 x 16, that a warp takes part in for a tile."""
    if kind(kernel) == "hopper one pass":
        return 2 * (d // 16) + 2 * ROWS // 16 * (d // 64) + 2 * ROWS // 16
    if is_hopper(kernel):
        return group_products(kernel, d)
    return products(kernel) * tiles(kernel, d) * (ROWS // 16) * (ROWS // 8) * (d // 16) // warps(kernel)


def warp_loads(kernel, d):
    """ldmatrix of a warp for the same: in Hopper form of the left operands of dq, for 16 keys of two tiles, and of queries
    where states leave no registers to keep them in."""
    if not is_hopper(kernel):
        return loads(kernel, d)
    if kind(kernel) == "hopper one pass":
        return 2 * ROWS // 16
    return states(kernel) * d // 16


def trips(kernel, d):
    """Through the kernel's innermost loop, for a tile: by so many keys forward, by chunks backward, of which with bands
    of keys each warp has one."""
    if kind(kernel) in WIDTH:
        return ROWS // width(kernel, d)
    by_chunks = kind(kernel) == "dq" or (kind(kernel) == "dkv" and bands(kernel, d) == 1)
    return ROWS // COLUMNS if by_chunks else 1


def pairs(kernel, d):
    """Pairs of tiles of all that is counted for a tile."""
    return 1 if is_hopper(kernel) else tiles(kernel, d)


def issued(kernel, d, code):
    """What one of a multiprocessor's schedulers issues for a pair of tiles: instructions of a warp, at least."""
    of_warp = warp_products(kernel, d) + warp_loads(kernel, d) + counted(kernel, d, code).others
    return of_warp * warps(kernel) / pairs(kernel, d) / ISSUED


def memory_bytes(kernel, d):
    """Of a pair of tiles, that surely go to memory and back where nothing is kept on the way: of the float32 sums of dq,
    which each tile of queries reads and writes for two tiles of keys."""
    return 2 * ROWS * d * 4 / ONE_PASS_TILES if kind(kernel).endswith("one pass") else 0


def group_products(kernel, d):
    """wgmma 64 x 64 x 16 of a warpgroup for a pair of tiles: scores by 16 channels, averages by 16 keys and 64
    channels. Each reads 64 x 16 numbers of shared memory; its left operand lies in registers."""
    return d // 16 + (1 + states(kernel)) * ROWS // 16 * (d // 64)


def hopper_one_pass_bytes(d):
    """That the products of the backward pass in Hopper form read. Both operands of scores and of d_out . v lie in shared
    memory, of dv and dk the right one; of dq, once for two tiles of keys and each 64 channels, the right one and, by
    ldmatrix, the left one."""
    operand = ROWS * 16 * 2
    rows, sums = 2 * d // 16 * 2, 2 * ROWS // 16 * (d // 64)
    dq = (d // 64) * 2 * ROWS // 16 * (operand + WARPS * LOAD_BYTES) / ONE_PASS_TILES
    return (rows + sums) * operand + dq


def shared_bytes(kernel, d, code):
    """That a pair of tiles reads and writes of shared memory: by products and matrix loads, by loads and stores of single
    numbers in the machine code, and by copies."""
    words = warps(kernel) * counted(kernel, d, code).turns * TURN_BYTES
    if kind(kernel) == "hopper one pass":
        operands = hopper_one_pass_bytes(d)
    elif is_hopper(kernel):
        operands = group_products(kernel, d) * ROWS * 16 * 2 + WARPS * warp_loads(kernel, d) * LOAD_BYTES
    else:
        operands = warps(kernel) * loads(kernel, d) * LOAD_BYTES
    return (operands + words + copied(kernel, d)) / pairs(kernel, d)


def cycles(kernel, d, code, flops_a_clock, memory_a_clock=float("inf")):
    """{unit: cycles of a multiprocessor for a pair of tiles}."""
    special = warps(kernel) * counted(kernel, d, code).special * 32 / pairs(kernel, d)
    return {"tensor cores": products(kernel) * 2 * ROWS * ROWS * d / flops_a_clock,
            "shared memory": shared_bytes(kernel, d, code) / SHARED_BYTES, "special functions": special / SPECIAL,
            "instructions": issued(kernel, d, code), "memory": memory_bytes(kernel, d) / memory_a_clock}


def is_hopper(name):
    """Of a pass or of a kernel."""
    return "Hopper" in name or name.startswith("hopper")


def kernels_of(name, d):
    return PASSES[name][d] if isinstance(PASSES[name], dict) else PASSES[name]


def limits(name, d, device):
    """(least, most) TFLOP/s of a pass, by the flops that plain's has, and what binds: all units one after the other, and
    all of them at once."""
    kernels = kernels_of(name, d)
    units, clock, flops, reached, memory = DEVICES[device]
    if is_hopper(name):
        reached = 1
    all_cycles = [cycles(kernel, d, CODE[device], flops * reached, memory / units / clock) for kernel in kernels]
    together = {unit: sum(one[unit] for one in all_cycles) for unit in all_cycles[0]}
    useful = (10 if "backward" in name else 4) * ROWS * ROWS * d
    most = sum(max(one.values()) for one in all_cycles)
    scale = useful * units * clock * 1e9 / 1e12
    return scale / sum(together.values()), scale / most, max(together, key=together.get)


def table():
    lines = ["| computed, not measured | D | " + " | ".join(f"{name} TFLOP/s" for name in DEVICES) + " | binds |",
             "|---|--:|" + "--:|" * len(DEVICES) + "---|"]
    for name in PASSES:
        for d in (64, 128):
            found = [limits(name, d, device) if device in HOPPER or not is_hopper(name) else None for device in DEVICES]
            cells = " | ".join(f"{one[0]:.0f} to {one[1]:.0f}" if one else "" for one in found)
            binds = " / ".join(dict.fromkeys(one[2] for one in found if one))
            lines.append(f"| {name} | {d} | {cells} | {binds} |")
    return "\n".join(lines)


def verdicts():
    """A sentence for each goal, that says where it is met and where it is missed."""
    sentences = []
    for name, goal in GOALS.items():
        forms = [f"in {words} {met(*limits(form, 128, 'H100')[:2], goal)}" for form, words in forms_of(name)]
        sentences.append(f"The goal of {goal} TFLOP/s {name} at D 128 on an H100 is met {' and '.join(forms)}.")
    least, most = (min(limits("plain, backward", d, device)[n] / limits("plain, backward, dq by itself", d, device)[n]
                       for d in (64, 128) for device in DEVICES) for n in range(2))
    sentences.append(f"With all units at once the backward pass in one kernel is at least {most:.2f} times as fast as with "
                     f"kernels of dq's own; with one unit after the other, at least {least:.2f} times.")
    costs = [f"{cost:.2f} at D {d} in {words} ({'met' if cost <= PROBES_GOAL else 'missed'})"
             for d in (64, 128) for form, words in forms_of("forward") for cost in [probes_cost(d, "H100", form)]]
    sentences.append(f"All probes of a row are to cost {PROBES_GOAL} times the forward pass at most; by the worse of the two "
                     f"numbers they cost on an H100 {', '.join(costs)}.")
    return " ".join(sentences)


def forms_of(name):
    return (f"plain, {name}", "Ampere form"), (f"plain, {name}, Hopper form", "Hopper form")


def met(least, most, goal):
    """By which of a pass's two numbers."""
    word = "by both numbers" if least >= goal else "by the upper number alone" if most >= goal else "by neither number"
    return f"{word} ({least:.0f} to {most:.0f})"


def probes_cost(d, device, form):
    """Times the forward pass, by the worse of the two limits."""
    plain, probes = limits(form, d, device), limits(f"{form}, all probes of a row", d, device)
    return max(plain[n] / probes[n] for n in range(2))


def plain_of(name):
    """The pass of plain scores that another one's is a multiple of: in the same form."""
    words = name.split(", ")
    return ", ".join(["plain", *(word for word in words[1:] if word != "with its gradient")])


def times_plain(name, d, device):
    """How many times plain's time a pass takes: all units at once, and one after the other."""
    plain, mine = limits(plain_of(name), d, device), limits(name, d, device)
    return plain[1] / mine[1], plain[0] / mine[0]


def cape_times_plain(d, device):
    """Of CAPE's forward pass by memory alone: what its kernels hand each other there, where nothing of it stays in the
    second-level cache, by all that plain's takes at once."""
    units, clock, _, _, memory = DEVICES[device]
    of_memory = CAPE_BYTES * ROWS * ROWS / (memory / units / clock)
    flops = 4 * ROWS * ROWS * d
    return of_memory / (flops * units * clock * 1e9 / 1e12 / limits("plain, forward", d, device)[1])


def times_table():
    lines = ["| times plain's time, computed | D | " + " | ".join(DEVICES) + " | goal |",
             "|---|--:|" + "--:|" * len(DEVICES) + "--:|"]
    for name in PASSES:
        if name.startswith("plain"):
            continue
        goal = TIMES_PLAIN[name.split(",")[0]] if "forward" in name else ""
        for d in (64, 128):
            cells = [f"{min(both):.2f} to {max(both):.2f}" for both in
                     [times_plain(name, d, device) if device in HOPPER or not is_hopper(name) else None
                      for device in DEVICES] if both]
            cells = [""] * (len(DEVICES) - len(cells)) + cells
            lines.append(f"| {name} | {d} | {' | '.join(cells)} | {goal} |")
    for d in (64, 128):
        cells = " | ".join(f"{cape_times_plain(d, device):.1f} by memory alone" for device in DEVICES)
        lines.append(f"| cape, forward, its memory alone | {d} | {cells} | {TIMES_PLAIN['cape']} |")
    return "\n".join(lines)


def times_verdict():
    """Of the forward passes that have a goal, on an H200 at D 128."""
    said = []
    for name, goal in TIMES_PLAIN.items():
        if name == "cape":
            least = cape_times_plain(128, "H200")
            said.append(f"{name} {goal} times ({'missed' if least > goal else 'open'}: {least:.1f} by memory alone)")
            continue
        forms = []
        for form, words in ((f"{name}, forward", "Ampere form"), (f"{name}, forward, Hopper form", "Hopper form")):
            both = times_plain(form, 128, "H200")
            word = "met" if max(both) <= goal else "missed" if min(both) > goal else "open"
            forms.append(f"{word} in {words}: {min(both):.2f} to {max(both):.2f}")
        said.append(f"{name} {goal} times ({'; '.join(forms)})")
    return (f"What the other scores are to cost on a device, forward, at D 128, and what they do by count on an H200: "
            f"{', '.join(said)}. Where both numbers are below a goal it is met, where one is it is open.")


def code_table():
    """What a warp issues for a tile."""
    lines = ["| machine code, at least, of a warp and a tile | D | products | matrix loads | others, sm_80 | "
             "others, sm_90a | all for a product | shared bytes a pair |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for unit in UNITS.values():
        for kernel in unit:
            for d in sorted({d for code in COUNTED for d in COUNTED[code].get(kernel, {})}):
                lines.append(code_row(kernel, d))
    return "\n".join(lines)


def code_row(kernel, d):
    made, loaded = warp_products(kernel, d), warp_loads(kernel, d)
    codes = [code for code in COUNTED if d in COUNTED[code].get(kernel, {})]
    others = {code: counted(kernel, d, code).others for code in codes}
    cells = " | ".join(str(others.get(code, "")) for code in COUNTED)
    ratio = max((made + loaded + one) / made for one in others.values())
    most = max(shared_bytes(kernel, d, code) for code in codes)
    return f"| {title(kernel)} | {d} | {made} | {loaded} | {cells} | {ratio:.1f} | {most:.0f} |"


def title(kernel):
    """The pass that a kernel is of, or is a part of."""
    words = {"forward": "forward", "probes": "forward, all probes of a row", "dq": "dq by itself",
             "dkv": "dk and dv, dq by itself", "one pass": "backward", "hopper": "forward, Hopper form",
             "hopper probes": "forward, Hopper form, all probes of a row", "hopper one pass": "backward, Hopper form"}
    return f"{score(kernel)}, {words[kind(kernel)]}{', with its gradient' if 'gradient' in kernel else ''}"


def section():
    return "\n\n".join([f"{BEGIN}\n{table()}", verdicts(), times_table(), times_verdict(), f"{code_table()}\n{END}"])


def with_section(page):
    begin, end = page.index(BEGIN), page.index(END) + len(END)
    return with_states(page[:begin] + section() + page[end:])


def write():
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    say(f"wrote the tables of {PAGE.relative_to(ROOT)}")
    return 0


def constants():
    """Of the sources, by which this was counted."""
    folder = ROOT / "kernels" / "cuda"
    text = "".join((folder / name).read_text(encoding="utf-8") for name in ("launchers.h", "tile_pair.cuh", "tile.cuh"))
    found = {name: int(value) for name, value in re.findall(r"inline constexpr int (kRows|kThreads|kColumns) = (\d+);",
                                                            text)}
    found["kOnePassTiles"] = int(re.search(r"inline constexpr int kOnePassKeys = (\d+) \* kRows;", text)[1])
    return found
