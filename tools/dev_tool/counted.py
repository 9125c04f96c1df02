"""What the machine code of the CUDA kernels was counted to have, for roofline.py: of a warp and a tile, at least
(machine_code.py), besides products and matrix loads. tests/build/cuda_registers_test.py holds it against what the pinned
nvcc makes of these units."""

from typing import NamedTuple


class Counted(NamedTuple):
    others: int  # instructions
    turns: int  # of shared memory, of 128 bytes, of the loads and stores of single numbers among them
    special: int  # results of the special-function unit among them


# {unit: {kernel of roofline.py: what its name has}}. "of" a score that is not plain's; "with its gradient" is the way
# through a kernel on which a table's gradient is summed, others the way without.
UNITS = {
    "forward_plain": {"forward": "attention_forward_kernel.*Li{d}E.*NoProbes",
                      "probes": "attention_forward_kernel.*Li{d}E.*AllProbes"},
    "backward_plain": {"dq": "attention_dq_kernel.*Li{d}E", "dkv": "attention_dkv_kernel.*Li{d}E",
                       "one pass": "attention_one_pass_kernel.*Li{d}E"},
    "hopper_plain": {"hopper": "attention_hopper_kernel.*Li{d}E.*NoProbes",
                     "hopper probes": "attention_hopper_kernel.*Li{d}E.*AllProbes",
                     "hopper one pass": "attention_one_pass_hopper_kernel.*Li{d}E"},
    "forward_table": {"forward of table": "attention_forward_kernel.*Li{d}E.*NoProbes"},
    "backward_table": {"one pass of table": "attention_one_pass_kernel.*Li{d}E",
                       "one pass of table with its gradient": "attention_one_pass_kernel.*Li{d}E"},
    "hopper_table": {"hopper of table": "attention_hopper_kernel.*Li{d}E.*NoProbes",
                     "hopper one pass of table": "attention_one_pass_hopper_kernel.*Li{d}E",
                     "hopper one pass of table with its gradient": "attention_one_pass_hopper_kernel.*Li{d}E"},
    "forward_tapa": {"forward of tapa": "attention_forward_kernel.*Li{d}E.*NoProbes"},
    "backward_tapa": {"one pass of tapa": "attention_one_pass_kernel.*Li{d}E"},
    "hopper_tapa": {"hopper of tapa": "attention_hopper_kernel.*Li{d}E.*NoProbes"},
    "forward_tape": {"forward of tape": "attention_forward_kernel.*Li{d}E.*NoProbes"},
    "backward_tape": {"one pass of tape": "attention_one_pass_kernel.*Li{d}E", "dq of tape": "attention_dq_kernel.*Li{d}E",
                      "dkv of tape": "attention_dkv_kernel.*Li{d}E"},
    "hopper_tape": {"hopper of tape": "attention_hopper_kernel.*Li{d}E.*NoProbes"},
}
# By the architecture that is compiled for, kernel and D. Of the backward pass in Hopper form at 64 channels with dq, which
# every other tile has.
COUNTED = {
    "sm_80": {
        "forward": {64: Counted(518, 3, 65), 128: Counted(810, 0, 64)},
        "probes": {64: Counted(900, 0, 64), 128: Counted(1428, 0, 64)},
        "dq": {64: Counted(896, 72, 64), 128: Counted(1110, 72, 64)},
        "dkv": {64: Counted(467, 80, 33), 128: Counted(846, 48, 32)},
        "one pass": {64: Counted(968, 80, 32), 128: Counted(1282, 80, 32)},
        "forward of table": {64: Counted(656, 39, 65), 128: Counted(996, 40, 64)},
        "one pass of table": {64: Counted(964, 84, 32), 128: Counted(1256, 84, 32)},
        "one pass of table with its gradient": {64: Counted(1160, 143, 32), 128: Counted(1451, 143, 32)},
        "forward of tapa": {64: Counted(1044, 20, 64), 128: Counted(1536, 20, 64)},
        "one pass of tapa": {64: Counted(3316, 130, 128), 128: Counted(4827, 130, 128)},
        "forward of tape": {64: Counted(354, 3, 33), 128: Counted(550, 0, 32)},
        "one pass of tape": {64: Counted(966, 80, 32)},
        "dq of tape": {128: Counted(690, 36, 32)},
        "dkv of tape": {128: Counted(1050, 48, 32)},
    },
    "sm_90a": {
        "forward": {64: Counted(531, 3, 65), 128: Counted(722, 0, 64)},
        "probes": {64: Counted(840, 0, 64), 128: Counted(1276, 0, 64)},
        "dq": {64: Counted(900, 72, 64), 128: Counted(1100, 72, 64)},
        "dkv": {64: Counted(492, 80, 33), 128: Counted(860, 48, 32)},
        "one pass": {64: Counted(980, 80, 32), 128: Counted(1282, 80, 32)},
        "hopper": {64: Counted(308, 0, 32), 128: Counted(364, 0, 32)},
        "hopper probes": {64: Counted(400, 0, 32), 128: Counted(456, 0, 32)},
        "hopper one pass": {64: Counted(822, 64, 32), 128: Counted(1028, 64, 32)},
        "forward of table": {64: Counted(671, 39, 65), 128: Counted(992, 40, 64)},
        "one pass of table": {64: Counted(977, 84, 32), 128: Counted(1296, 84, 32)},
        "one pass of table with its gradient": {64: Counted(1178, 143, 32), 128: Counted(1499, 143, 32)},
        "hopper of table": {64: Counted(381, 18, 32), 128: Counted(437, 18, 32)},
        "hopper one pass of table": {64: Counted(869, 82, 32), 128: Counted(1077, 82, 32)},
        "hopper one pass of table with its gradient": {64: Counted(1085, 141, 32), 128: Counted(1294, 141, 32)},
        "forward of tapa": {64: Counted(1056, 20, 64), 128: Counted(1540, 20, 64)},
        "one pass of tapa": {64: Counted(3298, 130, 128), 128: Counted(4826, 130, 128)},
        "hopper of tapa": {64: Counted(709, 18, 64), 128: Counted(810, 18, 64)},
        "forward of tape": {64: Counted(365, 3, 33), 128: Counted(460, 0, 32)},
        "one pass of tape": {64: Counted(975, 80, 32)},
        "dq of tape": {128: Counted(706, 36, 32)},
        "dkv of tape": {128: Counted(1072, 48, 32)},
        "hopper of tape": {64: Counted(334, 0, 32), 128: Counted(419, 0, 32)},
    },
}
# Matrix loads of a tile that the compiler leaves out, where what they load stays in registers from the tile before.
KEPT = {("one pass of tape", "sm_90a"): 7}


def counted(kernel, d, code):
    return COUNTED[code][kernel][d]
