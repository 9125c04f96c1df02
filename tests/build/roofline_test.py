#!/usr/bin/env python3
"""What the CUDA kernels can reach by count (docs/cuda.md): the table is that of the counts, and the counts
are those of the sources, worked out here once more by hand."""

import os
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import roofline  # noqa: E402


class Roofline(unittest.TestCase):
    def test_the_page_has_the_table_of_now(self):
        page = (SOURCE / "docs" / "cuda.md").read_text(encoding="utf-8")
        self.assertEqual(roofline.with_section(page), page, "./dev roofline writes it anew")

    def test_the_sources_have_the_tiles_that_were_counted(self):
        self.assertEqual(roofline.constants(), {"kRows": roofline.ROWS, "kThreads": 32 * roofline.WARPS,
                                                "kColumns": roofline.COLUMNS})

    def test_the_counts_by_hand(self):
        # Forward at D 128: q.k of a warp takes 8 steps of 16 channels x 4 groups of 16 keys, p.v the same; 64 loads
        # of 512 bytes by 4 warps are 1024 cycles of 128 bytes, and k and v, 16 KiB each, 256.
        self.assertEqual(roofline.loads("forward", 128), 64)
        self.assertEqual(roofline.cycles("forward", 128, 4096),
                         {"tensor cores": 512, "shared memory": 1280, "exponentials": 256, "instructions": 192})
        # Backward: chunks of 32 columns, each with its rows again.
        self.assertEqual((roofline.loads("dq", 128), roofline.loads("dkv", 128)), (128, 160))
        self.assertEqual(roofline.cycles("dq", 128, 4096)["shared memory"], 2304)
        self.assertEqual(roofline.cycles("dkv", 128, 4096)["shared memory"], 2816)

    def test_no_device_is_faster_than_its_maker_says(self):
        for device, peak in (("A100", 312), ("H100", 989), ("H200", 989)):
            units, clock, flops, reached = roofline.DEVICES[device]
            self.assertAlmostEqual(units * clock * flops / 1e3, peak, delta=0.01 * peak)
            for kernels in (("forward",), ("dq", "dkv")):
                for d in (64, 128):
                    least, most, _ = roofline.limits(kernels, d, device)
                    self.assertLess(least, most)
                    self.assertLess(most, peak * reached)


if __name__ == "__main__":
    unittest.main()
