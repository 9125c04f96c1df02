#!/usr/bin/env python3
"""What the CUDA kernels can reach by count (docs/cuda.md): the table is that of the counts, and the counts
are those of the sources, worked out here once more by hand."""

import os
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import bench_import, counted, kernel_states, machine_code, roofline  # noqa: E402


# A loop over tiles with a mask that few tiles need, a form without a product, and a loop beside it.
SASS = """\
\t.section\t.text.kernel,"ax",@progbits
.text.kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDSM.16.M88.4 R4, [R2] ;
        /*0020*/              @!P0 BRA `(.L_x_2) ;
        /*0030*/                   HMMA.16816.F32 R8, R4, R12, RZ ;
        /*0040*/              @P1  BRA `(.L_x_3) ;
        /*0050*/                   FSEL R8, R8, -INF , P2 ;
        /*0060*/                   FSEL R9, R9, -INF , P2 ;
.L_x_3:
        /*0070*/                   FADD R8, R8, R9 ;
.L_x_2:
        /*0080*/                   NOP ;
        /*0090*/              @P3  BRA `(.L_x_1) ;
.L_x_4:
        /*00a0*/                   FADD R8, R8, R9 ;
        /*00b0*/              @P3  BRA `(.L_x_4) ;
        /*00c0*/                   EXIT ;
"""


class MachineCode(unittest.TestCase):
    def test_a_trip_has_so_many_products_and_the_fewest_others(self):
        found = machine_code.functions(SASS)
        self.assertEqual(list(found), ["kernel"])
        code, labels = found["kernel"]
        self.assertEqual(machine_code.loops(code, labels), [(1, 9), (10, 11)])
        # Others: three branches and the last addition; the mask's selections are passed by.
        self.assertEqual(machine_code.trip_of(code, labels, 1, 1), machine_code.Trip(products=1, loads=1, others=4))
        self.assertIsNone(machine_code.trip_of(code, labels, 2, 1))

    def test_a_trip_has_no_more_products_than_it_is_asked_for(self):
        # A second product behind a branch that few tiles take, as where a score's two dot products share a step.
        more = SASS.replace("FSEL R8, R8, -INF , P2", "HMMA.16816.F32 R8, R4, R12, R8")
        code, labels = machine_code.functions(more)["kernel"]
        self.assertEqual(machine_code.trip_of(code, labels, 1, 1), machine_code.Trip(products=1, loads=1, others=4))
        self.assertEqual(machine_code.trip_of(code, labels, 2, 1), machine_code.Trip(products=2, loads=1, others=5))

    def test_a_product_may_be_off_and_one_that_leaves_nothing_is_a_fence(self):
        # One of two products under a predicate, as of a step whose channels are one dot product's or the other's.
        either = SASS.replace("FSEL R8, R8, -INF , P2", "HMMA.16816.F32 R8, R4, R12, R8")
        either = either.replace("                   HMMA", "              @P1  HMMA").replace("@P1  BRA `(.L_x_3) ;\n",
                                                                                         "@P4  NOP ;\n")
        code, labels = machine_code.functions(either)["kernel"]
        # Others: the branches, both selection and addition, and the product that is off.
        self.assertEqual(machine_code.trip_of(code, labels, 1, 1), machine_code.Trip(products=1, loads=1, others=5))
        self.assertEqual(machine_code.trip_of(code, labels, 2, 1), machine_code.Trip(products=2, loads=1, others=4))
        fence = SASS.replace("FADD R8, R8, R9 ;\n.L_x_2", "HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ, !UPT, gsb0 ;\n.L_x_2")
        code, labels = machine_code.functions(fence)["kernel"]
        self.assertEqual(machine_code.trip_of(code, labels, 1, 1), machine_code.Trip(products=1, loads=1, others=4))

    def test_single_numbers_take_turns_by_their_width_and_a_gradient_is_summed_on_a_way_of_its_own(self):
        # The selections become what a table's gradient does: it stores two numbers and loads sums, 2 + 1 turns.
        summed = SASS.replace("FSEL R8, R8, -INF , P2", "STS.64 [R2], R8").replace("FSEL R9, R9, -INF , P2",
                                                                                   "LDS R9, [R2]")
        summed = summed.replace("FADD R8, R8, R9 ;\n.L_x_2:", "MUFU.EX2 R8, R9 ;\n.L_x_2:")
        code, labels = machine_code.functions(summed)["kernel"]
        self.assertEqual(machine_code.trip_of(code, labels, 1, 1),
                         machine_code.Trip(products=1, loads=1, others=4, special=1))
        self.assertEqual(machine_code.trip_of(code, labels, 1, 1, summing=True),
                         machine_code.Trip(products=1, loads=1, others=6, turns=3, special=1, doubles=1))

    def test_what_always_jumps_does_not_go_on(self):
        code, labels = machine_code.functions(SASS.replace("@P1  BRA", "     BRA"))["kernel"]
        self.assertEqual([one.goes_on for one in code if one.opcode == "BRA"], [True, False, True, True])
        code, labels = machine_code.functions(SASS.replace("@P1  BRA `", "     BRA P1, `"))["kernel"]
        self.assertEqual([one.goes_on for one in code if one.opcode == "BRA"], [True, True, True, True])
        self.assertEqual(machine_code.trip_of(code, labels, 1, 1).others, 4)


# In place of the machine code: what is worked out by hand does not change with it.
by_hand = mock.patch.object(roofline, "counted", lambda *_: counted.Counted(others=700, turns=8, special=64))


class Roofline(unittest.TestCase):
    def test_the_page_has_the_table_of_now(self):
        page = (SOURCE / "docs" / "cuda.md").read_text(encoding="utf-8")
        self.assertEqual(roofline.with_section(page), page, "./dev roofline writes it anew")

    def test_states_are_those_of_kernels_that_are_there_and_of_tests_that_name_them(self):
        kernels = {*bench_import.KINDS, *bench_import.HOPPER}
        self.assertLessEqual({*kernel_states.HELD, *kernel_states.CONFLICTS, *kernel_states.SPEED_COUNTED}, kernels)
        conflicts = (SOURCE / "tests/kernels/cuda_emulation/bank_conflicts_test.cpp").read_text(encoding="utf-8")
        for case in set().union(*kernel_states.CONFLICTS.values()):
            self.assertIn(f"TEST(BankConflicts, {case})", conflicts)
        test = (SOURCE / "tests" / "build" / "cuda_registers_test.py").read_text(encoding="utf-8")
        for kernel, part in kernel_states.HELD.items():
            passes = [part] if part else ["forward", "backward"]
            for unit in [kernel] if kernel.startswith("hopper") else [f"{one}_{kernel}" for one in passes]:
                self.assertIn(f'"{unit}"', test)

    def test_kernels_whose_speed_is_counted_are_those_of_passes(self):
        passes = {roofline.is_hopper(name) * "hopper_" + name.split(",")[0] for name in roofline.PASSES}
        self.assertEqual({*kernel_states.SPEED_COUNTED} - {"cape"}, passes)

    def test_nothing_is_said_of_a_new_kernel(self):
        self.assertEqual(kernel_states.row("sparse", {}), "sparse | not yet | not yet | not yet | not yet")

    def test_a_kernel_of_the_list_is_measured_on_its_devices(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(bench_import, "LIST", Path(folder) / "verified.inc"):
            bench_import.LIST.write_text('// Of lines.\n{"tape", 90},\n{"tape", 80},\n', encoding="utf-8")
            lines = kernel_states.table().splitlines()
        self.assertIn("| tape | measured on 8.0, 9.0 | computed from counts (backward) | computed from counts "
                      "| measured on 8.0, 9.0 |", lines)
        self.assertIn("| fire | not yet | not yet | not yet | not yet |", lines)

    def test_the_sources_have_the_tiles_that_were_counted(self):
        self.assertEqual(roofline.constants(), {"kRows": roofline.ROWS, "kThreads": 32 * roofline.WARPS,
                                                "kColumns": roofline.COLUMNS,
                                                "kOnePassTiles": roofline.ONE_PASS_TILES})
        self.assertEqual(roofline.ONE_PASS_WARPS, roofline.ONE_PASS_TILES * roofline.WARPS)

    @by_hand
    def test_the_counts_by_hand(self):
        # Forward at D 128: for a tile of 64 keys and 2 of queries a warp loads, in each of two chunks of 32 keys, 8 steps
        # of 16 channels of 2 x 16 queries; q.k takes 8 steps x 4 groups of 16 keys, p.v the same. 96 loads of 512 bytes by
        # 4 warps are 1536 cycles of 128 bytes, and k and v, 16 KiB each, 256: for two pairs of tiles.
        self.assertEqual(roofline.loads("forward", 128), 96)
        # A warp takes part in 2 products x 2 x 16 queries x 64 keys x 128 channels, each of 16 x 8 x 16: 256.
        self.assertEqual((roofline.warp_products("forward", 128), roofline.trips("forward", 128)), (256, 2))
        # 4 warps' 8 turns of single numbers are 32, and 64 numbers of each lane 8192 of a unit that gives 16 a cycle.
        self.assertEqual(roofline.cycles("forward", 128, "sm_90a", 4096),
                         {"tensor cores": 512, "shared memory": (1536 + 256 + 32) / 2, "special functions": 256,
                          "instructions": (256 + 96 + 700) / 2, "memory": 0})
        # At D 64 the queries are loaded once, and all takes half as many steps.
        self.assertEqual(roofline.loads("forward", 64), 40)
        # Of dq in each of two chunks of 32 keys: 8 steps x (2 + 2) fragments for scores, as many for d_out . v, and k
        # once more, 2 x 8.
        self.assertEqual(roofline.loads("dq", 128), 160)
        self.assertEqual(roofline.cycles("dq", 128, "sm_80", 4096)["shared memory"], 1408 + 32 / 2)
        # Of dk and dv at D 64 32 keys x 32 queries a warp, 2 x 4 steps x (2 + 2) loads; then 4 groups of 16 queries x (2
        # fragments of weights + 2 of d_out's channels), and the same for gradients and q: 32. 1024 cycles and 128 of copies;
        # what stores the operands is in the machine code. At D 128 16 keys a warp, chunks of 32 queries with their rows
        # again.
        self.assertEqual((roofline.loads("dkv", 64), roofline.loads("dkv", 128)), (64, 160))
        self.assertEqual(roofline.cycles("dkv", 64, "sm_80", 4096)["shared memory"], 1024 + 128 + 32)
        self.assertEqual(roofline.cycles("dkv", 128, "sm_80", 4096)["shared memory"], 2816 + 32)
        # Products of dq: 3 x 2 x 16 queries x 64 keys x 128 channels; of dk and dv 4 x 16 keys, at D 64 as many in all of
        # half of the channels. Trips are chunks of 32 columns; at D 64 a warp of dk and dv has one.
        self.assertEqual([roofline.warp_products(kernel, d) for kernel in ("dq", "dkv") for d in (64, 128)],
                         [192, 384, 128, 256])
        self.assertEqual([roofline.trips(kernel, d) for kernel in ("dq", "dkv") for d in (64, 128)], [2, 2, 1, 2])
        # With probes a warp takes 16 keys at a time at D 128: 4 x 8 steps x 2 loads of queries, 64 of keys and values.
        self.assertEqual((roofline.loads("probes", 64), roofline.loads("probes", 128)), (48, 128))

    @by_hand
    def test_the_counts_of_the_backward_pass_in_one_kernel_by_hand(self):
        # At D 128 of 64 queries and 128 keys a warp has 32 keys x 32 queries. Scores: 8 steps of 16 channels x (2 x 16
        # keys + 2 x 16 queries), 32 loads. d_out . v: the same 16 keys at a time, 8 x 2 x (1 + 2), 48. dv: 4 groups of
        # 16 queries x (2 fragments of weights + 4 of half of the channels), 24, and dk the same. dq: 8 groups of 16 keys
        # x (2 of gradients + 2 of a quarter of the channels), 32. 160 loads of 512 bytes by 8 warps, q and d_out, 32 KiB,
        # and 8 turns of each warp: 672 KiB by 128 bytes a cycle, and 64 cycles, for two pairs of tiles.
        self.assertEqual(roofline.loads("one pass", 128), 32 + 48 + 24 + 24 + 32)
        # 5 products of 2 x 64 x 64 x 128 flops; 64 x 128 floats of dq to memory and back for the two pairs.
        # Instructions are those of two warps a scheduler for two pairs.
        self.assertEqual(roofline.cycles("one pass", 128, "sm_80", 4096, 32),
                         {"tensor cores": 1280, "shared memory": 672 * 8 / 2 + 32, "special functions": 512,
                          "instructions": 320 + 160 + 700, "memory": 1024})
        # At D 64 half as many steps and channels: 16 + 24 + 4 x (2 + 2) twice + 8 x (2 + 1).
        self.assertEqual(roofline.loads("one pass", 64), 16 + 24 + 16 + 16 + 24)
        self.assertEqual(roofline.cycles("one pass", 64, "sm_80", 4096)["shared memory"], (96 * 8 * 4 + 128) / 2 + 32)

    @by_hand
    def test_the_counts_of_other_scores_by_hand(self):
        # A table's numbers by distance, 512 bytes for each of two tiles of queries, come beside plain's copies.
        self.assertEqual((roofline.loads("forward of table", 128), roofline.warp_products("forward of table", 128)),
                         (96, 256))
        self.assertEqual(roofline.shared_bytes("forward of table", 128, "sm_80") -
                         roofline.shared_bytes("forward", 128, "sm_80"), 512)
        # TAPA's two dot products share the channels. A block has 64 queries, and takes 32 keys at a time: of 8 steps twice a
        # load of queries, 4 of keys and 4 of values.
        self.assertEqual((roofline.loads("forward of tapa", 128), roofline.warp_products("forward of tapa", 128)),
                         (8 * 2 + 8 * 4 + 8 * 4, 128))
        self.assertEqual(roofline.trips("forward of tapa", 64), 2)
        # TAPE's states are a third product. At 64 channels all keys of a tile are taken at once.
        self.assertEqual([roofline.loads("forward of tape", d) for d in (64, 128)], [4 + 3 * 16, 8 * 2 + 3 * 32])
        self.assertEqual([roofline.trips("forward of tape", d) for d in (64, 128)], [1, 2])
        self.assertEqual(roofline.warp_products("forward of tape", 128), 192)

    @by_hand
    def test_the_counts_of_other_scores_backward_by_hand(self):
        # TAPA in one kernel at D 128: scores by 16 keys after the other, 8 x 2 x (1 + 2), d_out . v the same; dv 4 x (2 +
        # 4); dk with both gradients 4 x (4 + 4), dq 8 x (4 + 2). Five products, as plain has.
        self.assertEqual(roofline.loads("one pass of tapa", 128), 48 + 48 + 24 + 32 + 48)
        self.assertEqual(roofline.loads("one pass of tapa", 64), 24 + 24 + 16 + 24 + 40)
        self.assertEqual(roofline.warp_products("one pass of tapa", 128), 320)
        # TAPE at D 64: scores 4 x (2 + 2), d_out . v and the state's 4 x 2 x (1 + 2) each, dv, d_state and dk 4 x (2 + 2)
        # each, dq 8 x (2 + 1). Seven products.
        self.assertEqual(roofline.loads("one pass of tape", 64), 16 + 2 * 24 + 3 * 16 + 24)
        self.assertEqual(roofline.warp_products("one pass of tape", 64), 7 * 32)
        # At D 128 dq by itself: in each of two chunks of 32 keys 8 steps x (1 + 2) for each of three, and k once more, 2 x
        # 8. dk, dv and d_state: the same with the three sums. Four and six products.
        self.assertEqual([roofline.loads(kernel, 128) for kernel in ("dq of tape", "dkv of tape")],
                         [2 * (3 * 24 + 16), 2 * (3 * 24 + 3 * 16)])
        self.assertEqual([roofline.warp_products(kernel, 128) for kernel in ("dq of tape", "dkv of tape")],
                         [4 * 64, 6 * 64])
        # Both together, 3 tiles of 16 KiB each, by 4 warps with 8 turns: 64 queries and 64 keys.
        self.assertEqual(sum(roofline.shared_bytes(kernel, 128, "sm_80") for kernel in ("dq of tape", "dkv of tape")),
                         4 * 512 * (176 + 240) + 2 * 3 * 16 * 1024 + 2 * 4 * 8 * 128)

    def test_what_a_score_costs_is_a_multiple_of_plain_s_time_in_the_same_form(self):
        self.assertEqual(roofline.plain_of("table, backward, Hopper form, with its gradient"),
                         "plain, backward, Hopper form")
        for name in roofline.PASSES:
            self.assertIn(roofline.plain_of(name), roofline.PASSES)
            for d in (64, 128):
                both = roofline.times_plain(name, d, "H100")
                if name.startswith("plain"):
                    self.assertEqual(both, (1, 1), name)
                # No score takes less than plain's by more than what the compiler makes of it.
                self.assertGreater(min(both), 0.9, name)
        self.assertEqual(roofline.times_plain("plain, forward", 64, "A100"), (1, 1))
        # 16 bytes a score by 3350e9 bytes a second, against 4 x 128 flops at plain's most.
        most = roofline.limits("plain, forward", 128, "H100")[1]
        self.assertAlmostEqual(roofline.cape_times_plain(128, "H100"), (16 / 3350e9) / (4 * 128 / (most * 1e12)))

    def test_every_kernel_of_a_pass_was_counted_for_every_device(self):
        for name in roofline.PASSES:
            for device in roofline.HOPPER if roofline.is_hopper(name) else roofline.DEVICES:
                for d in (64, 128):
                    for kernel in roofline.kernels_of(name, d):
                        self.assertIn(d, counted.COUNTED[roofline.CODE[device]][kernel], (name, device))
        self.assertEqual({kernel for unit in counted.UNITS.values() for kernel in unit}, set(counted.COUNTED["sm_90a"]))

    def test_the_one_pass_is_faster_where_units_work_at_once(self):
        # Where it is taken with a block for each multiprocessor (kernels/cuda/launchers.h); at 128 channels with one unit
        # after the other too.
        for device in roofline.DEVICES:
            for d in (64, 128):
                one, two = (roofline.limits(name, d, device)
                            for name in ("plain, backward", "plain, backward, dq by itself"))
                self.assertGreater(one[1], two[1])
                if d == 128:
                    self.assertGreater(one[0], two[0])
        self.assertGreaterEqual(roofline.limits("plain, backward", 128, "H100")[1], roofline.GOALS["backward"])

    @by_hand
    def test_the_counts_of_the_hopper_form_by_hand(self):
        # At D 128: 8 wgmma for scores, one for each 16 channels, and for averages one for each 16 keys and 64 channels,
        # 4 x 2. Each reads 2 KiB: 32 KiB, and with k and v, 32 KiB for two groups, 48 KiB by 128 bytes a cycle.
        self.assertEqual((roofline.group_products("hopper", 64), roofline.group_products("hopper", 128)), (8, 16))
        self.assertEqual(roofline.cycles("hopper", 128, "sm_90a", 4096),
                         {"tensor cores": 512, "shared memory": 384 + 32, "special functions": 512,
                          "instructions": 16 + 700, "memory": 0})
        self.assertEqual(roofline.cycles("hopper probes", 64, "sm_90a", 4096)["instructions"], 8 + 700)
        # TAPE's states: 8 wgmma more at D 128 of 2 KiB each, a tile more for two groups, and by 4 warps 8 loads of queries.
        self.assertEqual(roofline.group_products("hopper of tape", 128), 24)
        self.assertEqual(roofline.shared_bytes("hopper of tape", 128, "sm_90a"), (24 * 2 + 4 * 8 / 2 + 3 * 16 / 2 + 4) * 1024)

    @by_hand
    def test_the_counts_of_the_backward_pass_in_hopper_form_by_hand(self):
        # At D 128 of a pair of tiles, in KiB: scores and d_out . v, 8 wgmma each of two operands of 2; dv and dk, 4 x 2
        # each of one; dq, of two pairs and both groups 8 each of one, and 8 loads of 512 bytes by 4 warps. q and d_out,
        # 32 for two pairs, and 4 of 8 turns of each warp: 148 by 128 bytes a cycle.
        self.assertEqual(roofline.shared_bytes("hopper one pass", 128, "sm_90a"),
                         (2 * 8 * 4 + 2 * 8 * 2 + 2 * 8 * (2 + 2) / 2 + 32 / 2 + 4) * 1024)
        # Of the wgmma, 40 as they are named here but for both groups' dq, and its 8 loads, a group takes part in all.
        self.assertEqual(roofline.cycles("hopper one pass", 128, "sm_90a", 4096, 32),
                         {"tensor cores": 1280, "shared memory": 148 * 8, "special functions": 512,
                          "instructions": 2 * 8 + 2 * 8 + 8 + 8 + 700, "memory": 1024})
        # At D 64 half of each, and dq by one of the groups.
        self.assertEqual(roofline.cycles("hopper one pass", 64, "sm_90a", 4096)["shared memory"], (64 + 8) * 8 + 32)

    def test_a_goal_that_is_missed_is_called_so(self):
        self.assertEqual([roofline.met(100, 200, goal) for goal in (100, 101, 201)],
                         ["by both numbers (100 to 200)", "by the upper number alone (100 to 200)",
                          "by neither number (100 to 200)"])
        for goal, word in ((0.5, "missed"), (9, "met")):
            with mock.patch.object(roofline, "PROBES_GOAL", goal):
                self.assertEqual(set(re.findall(r"\((met|missed)\)", roofline.verdicts())), {word})

    def test_no_device_is_faster_than_its_maker_says(self):
        for device, peak in (("A100", 312), ("H100", 989), ("H200", 989)):
            units, clock, flops, reached, _ = roofline.DEVICES[device]
            self.assertAlmostEqual(units * clock * flops / 1e3, peak, delta=0.01 * peak)
            for name in roofline.PASSES:
                if roofline.is_hopper(name) and device not in roofline.HOPPER:
                    continue
                for d in (64, 128):
                    least, most, _ = roofline.limits(name, d, device)
                    self.assertLess(least, most)
                    whole = 1 if roofline.is_hopper(name) else reached
                    self.assertLessEqual(most, 1.01 * peak * whole)  # the maker rounds


if __name__ == "__main__":
    unittest.main()
