"""What the CUDA kernels can reach at most, computed from counts and from nothing measured: of a pair of tiles
(64 queries, 64 keys) how long each unit of a multiprocessor is busy, by the loops of kernels/cuda (forward_kernel.cuh,
tile_pair.cuh, backward_kernel.cuh, one_pass_kernel.cuh, forward_hopper.cuh, backward_hopper.cuh) and by the machine
code that the pinned nvcc makes of them. `./dev roofline` writes the tables of docs/cuda.md anew."""

import re

from .console import say
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
LOAD_BYTES = 512  # of an ldmatrix.x4
ONE_PASS_WARPS, ONE_PASS_TILES = 8, 2  # of a block of the backward pass in one kernel: its tiles of keys

# Multiprocessors, clock in GHz at which the maker's peak holds, dense bfloat16 flops a clock and multiprocessor, and
# the part of these that mma.sync reaches: on Hopper wgmma alone reaches all, and 0.62 is assumed here, not measured.
# Then the maker's bytes a second of memory, in 1e9 (A100 of 80 GB, all SXM).
HOPPER = ("H100", "H200")  # that have the Hopper form, whose products are wgmma
DEVICES = {"A100": (108, 1.41, 2048, 1.0, 2039), "H100": (132, 1.83, 4096, 0.62, 3350),
           "H200": (132, 1.83, 4096, 0.62, 4800)}
# A clock and multiprocessor: bytes of shared memory, results of the special-function unit, warps' instructions.
SHARED_BYTES, SPECIAL, ISSUED = 128, 16, 4
# What a warp issues for a tile besides products and matrix loads, at least (machine_code.py), by the architecture that
# is compiled for, kernel and D: tests/build/cuda_registers_test.py holds it against the machine code of these units. Of
# the backward pass in Hopper form at 64 channels with dq, which every other tile has.
UNITS = {
    "forward_plain": {"forward": "attention_forward_kernel.*Li{d}E.*NoProbes",
                      "probes": "attention_forward_kernel.*Li{d}E.*AllProbes"},
    "backward_plain": {"dq": "attention_dq_kernel.*Li{d}E", "dkv": "attention_dkv_kernel.*Li{d}E",
                       "one pass": "attention_one_pass_kernel.*Li{d}E"},
    "hopper_plain": {"hopper": "attention_hopper_kernel.*Li{d}E.*NoProbes",
                     "hopper probes": "attention_hopper_kernel.*Li{d}E.*AllProbes",
                     "hopper one pass": "attention_one_pass_hopper_kernel.*Li{d}E"},
}
OTHERS = {
    "sm_80": {"forward": {64: 518, 128: 810}, "probes": {64: 900, 128: 1428}, "dq": {64: 896, 128: 1110},
              "dkv": {64: 467, 128: 846}, "one pass": {64: 968, 128: 1282}},
    "sm_90a": {"forward": {64: 531, 128: 722}, "probes": {64: 840, 128: 1276}, "dq": {64: 900, 128: 1100},
               "dkv": {64: 492, 128: 860}, "one pass": {64: 980, 128: 1282}, "hopper": {64: 308, 128: 364},
               "hopper probes": {64: 400, 128: 456}, "hopper one pass": {64: 822, 128: 1028}},
}
TITLES = {"forward": "plain, forward", "probes": "plain, forward, all probes of a row", "dq": "plain, dq by itself",
          "dkv": "plain, dk and dv, dq by itself", "one pass": "plain, backward",
          "hopper": "plain, forward, Hopper form", "hopper probes": "plain, forward, Hopper form, all probes of a row",
          "hopper one pass": "plain, backward, Hopper form"}
CODE = {"A100": "sm_80", "H100": "sm_90a", "H200": "sm_90a"}
PASSES = {"forward": ("forward",), "forward, all probes of a row": ("probes",), "backward": ("one pass",),
          "backward, dq by itself": ("dq", "dkv"),
          "forward, Hopper form": ("hopper",), "forward, Hopper form, all probes of a row": ("hopper probes",),
          "backward, Hopper form": ("hopper one pass",)}
GOALS = {"forward": 330, "backward": 280}  # TFLOP/s on an H100 at D 128
PROBES_GOAL = 1.35  # times the forward pass without


def one_pass_loads(d):
    """Of one of eight warps, for a tile of queries and two of keys: 32 keys and 32 queries."""
    steps, groups = d // 16, ROWS // 16
    scores = steps * (2 + 2)
    weights = steps * (2 * 1 + 2 * 2)  # d_out . v: 16 keys after the other, with the columns again
    sums = 2 * groups * (2 + steps // 2)  # dv and dk: of all queries and half of the channels
    return scores + weights + sums + ONE_PASS_TILES * groups * (2 + steps // 4)  # dq: of a quarter of them


def loads(kernel, d):
    """ldmatrix.x4 of a warp for one tile and all tiles of rows of its block."""
    if kernel == "one pass":
        return one_pass_loads(d)
    steps, groups, bands = d // 16, ROWS // 16, BANDS[kernel][d]
    if kernel in WIDTH:  # q again for each chunk of keys; keys and values once
        return (ROWS // WIDTH[kernel][d]) * steps * bands + 2 * steps * groups
    chunk = 2 * steps * (bands + COLUMNS // 16)  # scores and d_out . v: rows again for each chunk, and its columns
    if kernel == "dkv" and bands == 2:
        # One chunk a warp; then weights and gradients of all queries, by half of the channels of d_out and q.
        return chunk + 2 * groups * (bands + steps // 2)
    sums = {"dq": 1, "dkv": 2}[kernel] * (COLUMNS // 16) * steps
    return (ROWS // COLUMNS) * (chunk + sums)


def tiles(kernel, d):
    """Of rows of a block: bands of keys are of one tile."""
    if kernel == "one pass":
        return ONE_PASS_TILES
    return 1 if kernel == "dkv" else BANDS[kernel][d]


def copied(kernel, d):
    """Bytes that are written to shared memory for the same: two tiles, and what bands of keys exchange."""
    if kernel == "one pass":
        return 2 * ROWS * d * 2 + 2 * ONE_PASS_TILES * ROWS * ROWS * 2
    return 2 * ROWS * d * 2 + (2 * ROWS * ROWS * 2 if kernel == "dkv" and BANDS[kernel][d] == 2 else 0)


def products(kernel):
    """Of 64 x 64 x D, each 2 * 64 * 64 * D flops; two mma of 16 x 8 x 16 of each part for each ldmatrix of columns."""
    return {"dq": 3, "dkv": 4, "one pass": 5, "hopper one pass": 5}.get(kernel, 2)


def warps(kernel):
    """Of a block, that share its pairs of tiles; in Hopper form of a group, which has pairs of its own."""
    return ONE_PASS_WARPS if kernel == "one pass" else WARPS


def warp_products(kernel, d):
    """mma of 16 x 8 x 16, or wgmma of 64 x 64 x 16, that a warp takes part in for a tile."""
    if kernel == "hopper one pass":
        return 2 * (d // 16) + 2 * ROWS // 16 * (d // 64) + 2 * ROWS // 16
    if kernel.startswith("hopper"):
        return group_products(d)
    return products(kernel) * tiles(kernel, d) * (ROWS // 16) * (ROWS // 8) * (d // 16) // warps(kernel)


def warp_loads(kernel, d):
    """ldmatrix of a warp for the same: in Hopper form of the left operands of dq, for 16 keys of two tiles."""
    if kernel.startswith("hopper"):
        return 2 * ROWS // 16 if kernel == "hopper one pass" else 0
    return loads(kernel, d)


def trips(kernel, d):
    """Through the kernel's innermost loop, for a tile: by so many keys forward, by chunks backward, of which with bands
    of keys each warp has one."""
    if kernel in WIDTH:
        return ROWS // WIDTH[kernel][d]
    return ROWS // COLUMNS if kernel == "dq" or (kernel == "dkv" and BANDS[kernel][d] == 1) else 1


def issued(kernel, d, code):
    """What one of a multiprocessor's schedulers issues for a pair of tiles: instructions of a warp, at least."""
    of_warp = warp_products(kernel, d) + warp_loads(kernel, d) + OTHERS[code][kernel][d]
    pairs = 1 if kernel.startswith("hopper") else tiles(kernel, d)
    return of_warp * warps(kernel) / pairs / ISSUED


def memory_bytes(kernel, d):
    """Of a pair of tiles, that surely go to memory and back where nothing is kept on the way: of the float32 sums of dq,
    which each tile of queries reads and writes for two tiles of keys."""
    return 2 * ROWS * d * 4 / ONE_PASS_TILES if kernel.endswith("one pass") else 0


def group_products(d):
    """wgmma 64 x 64 x 16 of a warpgroup for a pair of tiles: scores by 16 channels, averages by 16 keys and 64
    channels. Each reads 64 x 16 numbers of shared memory; its left operand lies in registers."""
    return d // 16 + ROWS // 16 * (d // 64)


def hopper_one_pass_bytes(d):
    """The same of the backward pass in Hopper form. Both operands of scores and of d_out . v lie in shared memory, of dv
    and dk the right one; of dq, once for two tiles of keys and each 64 channels, the right one and, by ldmatrix, the left
    one. Gradients are written there, and a tile of queries and one of d_out come for two tiles of keys."""
    operand = ROWS * 16 * 2
    rows, sums = 2 * d // 16 * 2, 2 * ROWS // 16 * (d // 64)
    dq = (d // 64) * 2 * ROWS // 16 * (operand + WARPS * LOAD_BYTES) / ONE_PASS_TILES
    return (rows + sums) * operand + dq + ROWS * ROWS * 2 + 2 * ROWS * d * 2 / ONE_PASS_TILES


def shared_bytes(kernel, d):
    """That a pair of tiles reads and writes of shared memory."""
    if kernel == "hopper one pass":
        return hopper_one_pass_bytes(d)
    if kernel.startswith("hopper"):  # a tile of keys and one of values come for two groups
        return group_products(d) * ROWS * 16 * 2 + 2 * ROWS * d * 2 / 2
    return (warps(kernel) * loads(kernel, d) * LOAD_BYTES + copied(kernel, d)) / tiles(kernel, d)


def cycles(kernel, d, code, flops_a_clock, memory_a_clock=float("inf")):
    """{unit: cycles of a multiprocessor for a pair of tiles}."""
    shared = shared_bytes(kernel, d)
    scores = ROWS * ROWS
    return {"tensor cores": products(kernel) * 2 * scores * d / flops_a_clock, "shared memory": shared / SHARED_BYTES,
            "exponentials": scores / SPECIAL, "instructions": issued(kernel, d, code),
            "memory": memory_bytes(kernel, d) / memory_a_clock}


def is_hopper(name):
    return "Hopper" in name


def limits(name, d, device):
    """(least, most) TFLOP/s of a pass and what binds: all units one after the other, and all of them at once."""
    kernels = PASSES[name]
    units, clock, flops, reached, memory = DEVICES[device]
    if is_hopper(name):
        reached = 1
    all_cycles = [cycles(kernel, d, CODE[device], flops * reached, memory / units / clock) for kernel in kernels]
    together = {unit: sum(one[unit] for one in all_cycles) for unit in all_cycles[0]}
    useful = (10 if name.startswith("backward") else 4) * ROWS * ROWS * d
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
            lines.append(f"| plain, {name} | {d} | {cells} | {binds} |")
    return "\n".join(lines)


def verdicts():
    """A sentence for each goal, that says where it is met and where it is missed."""
    sentences = []
    for name, goal in GOALS.items():
        forms = [f"in {words} {met(*limits(form, 128, 'H100')[:2], goal)}" for form, words in forms_of(name)]
        sentences.append(f"The goal of {goal} TFLOP/s {name} at D 128 on an H100 is met {' and '.join(forms)}.")
    least, most = (min(limits("backward", d, device)[n] / limits("backward, dq by itself", d, device)[n]
                       for d in (64, 128) for device in DEVICES) for n in range(2))
    sentences.append(f"With all units at once the backward pass in one kernel is at least {most:.2f} times as fast as with "
                     f"kernels of dq's own; with one unit after the other, at least {least:.2f} times.")
    costs = [f"{cost:.2f} at D {d} in {words} ({'met' if cost <= PROBES_GOAL else 'missed'})"
             for d in (64, 128) for form, words in forms_of("forward") for cost in [probes_cost(d, "H100", form)]]
    sentences.append(f"All probes of a row are to cost {PROBES_GOAL} times the forward pass at most; by the worse of the two "
                     f"numbers they cost on an H100 {', '.join(costs)}.")
    return " ".join(sentences)


def forms_of(name):
    return (name, "Ampere form"), (f"{name}, Hopper form", "Hopper form")


def met(least, most, goal):
    """By which of a pass's two numbers."""
    word = "by both numbers" if least >= goal else "by the upper number alone" if most >= goal else "by neither number"
    return f"{word} ({least:.0f} to {most:.0f})"


def probes_cost(d, device, form):
    """Times the forward pass, by the worse of the two limits."""
    plain, probes = limits(form, d, device), limits(f"{form}, all probes of a row", d, device)
    return max(plain[n] / probes[n] for n in range(2))


def code_table():
    """What a warp issues for a tile."""
    lines = ["| machine code, at least, of a warp and a tile | D | products | matrix loads | others, sm_80 | "
             "others, sm_90a | all for a product |", "|---|--:|--:|--:|--:|--:|--:|"]
    for unit in UNITS.values():
        for kernel in unit:
            for d in (64, 128):
                made, loaded = warp_products(kernel, d), warp_loads(kernel, d)
                others = [OTHERS[code].get(kernel, {}).get(d) for code in OTHERS]
                cells = " | ".join("" if one is None else str(one) for one in others)
                ratio = max((made + loaded + one) / made for one in others if one is not None)
                lines.append(f"| {TITLES[kernel]} | {d} | {made} | {loaded} | {cells} | {ratio:.1f} |")
    return "\n".join(lines)


def section():
    return f"{BEGIN}\n{table()}\n\n{verdicts()}\n\n{code_table()}\n{END}"


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
