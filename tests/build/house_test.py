#!/usr/bin/env python3
"""docs/house.svg shows what the targets of the build link, and nothing that follows from the rest of it."""

import os
import sys
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("PHASESCOPE_BUILD", SOURCE / "build/release"))
sys.path.insert(0, str(SOURCE / "tools"))

from dev_tool import house  # noqa: E402

LAYERS = """phasescope_kernels: OpenMP::OpenMP_CXX
phasescope_formats: nlohmann_json::nlohmann_json
phasescope_model_files: phasescope::formats
phasescope_model: phasescope::model_files phasescope::kernels phasescope::torch
phasescope_analysis: phasescope::model phasescope::formats
phasescope_worker_core: phasescope::formats
phasescope_worker: phasescope::worker_core phasescope::analysis $<LINK_ONLY:dl>
phasescope_widgets: phasescope::formats $<IF:$<BOOL:x>,imgui_tested,imgui>
phasescope_app: phasescope::widgets $<LINK_ONLY:phasescope::formats>
phasescope_verbs: phasescope::app phasescope::model_files
phasescope: phasescope::verbs
phasescope-worker: phasescope::worker
"""


class House(unittest.TestCase):
    def test_folders_programs_and_what_they_stand_on(self):
        graph = house.linked(LAYERS)
        self.assertEqual(graph["model/"], {"formats/", "kernels/", "LibTorch"})
        self.assertEqual(graph["worker/"], {"formats/", "analysis/"})
        self.assertEqual(graph["widgets/"], {"formats/", "Dear ImGui"})
        self.assertEqual(graph["app/"], {"widgets/", "formats/"})
        self.assertEqual(graph["phasescope"], {"app/"})

    def test_what_follows_is_left_out(self):
        graph = house.reduced(house.linked(LAYERS))
        self.assertEqual(graph["app/"], {"widgets/"})
        self.assertEqual(graph["worker/"], {"analysis/"})

    def test_a_box_stands_above_all_that_it_depends_on(self):
        graph = house.reduced(house.linked(LAYERS))
        levels = house.untangled(house.floors(graph), graph)
        floor = {name: number for number, level in enumerate(levels) for name in level}
        self.assertEqual(set(floor), set(graph))
        for name, below in graph.items():
            for one in below:
                self.assertGreater(floor[name], floor[one])

    def test_the_picture_is_that_of_the_build(self):
        layers = BUILD / "layers.txt"
        if not layers.exists() or "phasescope_worker:" not in layers.read_text(encoding="utf-8"):
            self.skipTest("no build folder with LibTorch")
        drawn = house.PICTURE.read_text(encoding="utf-8")
        self.assertEqual(drawn, house.picture(layers.read_text(encoding="utf-8")), "./dev house draws it again")
        self.assertLess(len(drawn), 30_000)
        ElementTree.fromstring(drawn)


if __name__ == "__main__":
    python_cases.run()
