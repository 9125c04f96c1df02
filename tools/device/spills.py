"""What the CUDA kernels may spill, in bytes that a thread stores and loads: the one list of it, which
tests/build/cuda_registers_test.py holds ptxas to and first_minutes.py the programs of a bundle. Python 3.9 reads it."""

import re
from typing import NamedTuple, Optional, Tuple

USUAL, WIDE = (64, 128), (192, 256)  # padded channels of a head
NAME = re.compile(r"attention_(\w+?)_kernelI(?:13__nv_bfloat16|6__half)Li(\d+)E(?:NS1_\d+(\w+?)ProbesE)?"
                  r"(?:NS1_\d+([A-Z]\w*?Score)E)?")


class Kernel(NamedTuple):
    """Of a mangled name. TokenScore<PlainScore> is a score of another name than PlainScore."""
    name: str
    channels: int
    probes: Optional[str]  # "No", "All"
    score: Optional[str]


class Limit(NamedTuple):
    kernels: Tuple[str, ...]  # empty: all
    scores: Tuple[str, ...]  # likewise
    channels: Tuple[int, ...]
    most: int
    architecture: str = ""  # empty: each
    probes: str = ""  # likewise


FORWARD_SCORES = ("PlainScore", "TableScore", "MultipliedTableScore", "TapaScore")
# The first that fits a kernel holds it, and nothing one that none fits. What is more than 0 is to become less.
LIMITS = (
    Limit(("forward", "distances", "top_keys", "dq", "dkv", "dq_table", "sums"), (), WIDE, 48),
    # The forward pass, and the sums that are compiled with it.
    Limit(("distances",), ("TapaScore",), (128,), 48, "sm_80"),
    Limit(("forward", "distances", "top_keys"), FORWARD_SCORES, USUAL, 0),
    # The Hopper form. Backward a table's entries and its sums by distance, beside 128 numbers of dk and dv and 64 of
    # scores and their weights' gradients, leave a thread 240 registers and none to spare.
    Limit(("hopper",), ("TapeScore",), (128,), 284, probes="All"),
    Limit(("one_pass_hopper",), ("TableScore",), (128,), 48),
    Limit(("hopper", "one_pass_hopper"), (), USUAL, 0),
    # Backward with a table that is added: where dq is made by itself the sums of four rows of dq leave a thread 255
    # registers and none to spare, and in one kernel no more.
    Limit(("dq_table",), ("TableScore",), (128,), 60),
    Limit(("one_pass",), ("TableScore",), (128,), 40),
    Limit(("dq_table", "dq", "one_pass"), ("TableScore",), USUAL, 0),
    Limit(("one_pass",), ("PlainScore",), USUAL, 0),
    # Backward of TAPA and TAPE: two dot products a pair, or sums for a second stream of values.
    Limit(("one_pass",), ("TapaScore",), USUAL, 216),
    Limit(("dkv",), ("TapaScore",), (128,), 88, "sm_80"),
    Limit(("dkv",), ("TapaScore",), (128,), 224, "sm_90a"),
    Limit(("one_pass",), ("TapeScore",), USUAL, 40, "sm_80"),
    Limit(("one_pass",), ("TapeScore",), USUAL, 80, "sm_90a"),
    Limit(("dkv",), ("TapeScore",), (128,), 1100),
    Limit(("dq", "dkv", "sums"), ("TapaScore", "TapeScore"), USUAL, 60),
)


def kernel_of(name):
    """The Kernel of a mangled name, or None."""
    found = NAME.search(name)
    return found and Kernel(found[1], int(found[2]), found[3], found[4])


def most(name, architecture):
    """Bytes that the kernel of a mangled name may spill; None where nothing holds it."""
    kernel = kernel_of(name)
    return next((one.most for one in LIMITS if kernel and kernel.name in (one.kernels or (kernel.name,))
                 and kernel.score in (one.scores or (kernel.score,)) and kernel.channels in one.channels
                 and architecture in (one.architecture or architecture)
                 and kernel.probes in (one.probes or kernel.probes,)), None)
