"""docs/house.svg: the targets of the build and what each links, from the build's own list of them.

CMake writes that list into layers.txt of a build folder (cmake/PhasescopeLayers.cmake). A dependency that
follows from another one is left out; a box stands above all that it depends on.
"""

import re
from xml.sax.saxutils import escape

from .console import DevError, say
from .paths import BUILD, ROOT

PICTURE = ROOT / "docs" / "house.svg"
PROGRAMS = {"phasescope": "phasescope", "phasescope-worker": "phasescope-worker"}
# Second libraries of a folder.
SECOND = {"phasescope_verbs": "app/", "phasescope_model_files": "formats/", "phasescope_kernel_problems": "kernels/"}
# Of other people, that the folders stand on: the first word of what is linked.
OTHERS = {"phasescope_torch": "LibTorch", "imgui": "Dear ImGui", "nlohmann_json": "nlohmann/json"}
WIDTH, HEIGHT, GAP, STEP, EDGE = 132, 34, 18, 62, 12
STYLE = ("text{font:13px Inter,DejaVu Sans,sans-serif;text-anchor:middle;fill:#1b1e25}rect{rx:5px;fill:#f1f3f6;"
         "stroke:#5a606e}.program{fill:#dce7f3}.other{fill:#fff;stroke-dasharray:4 3}path{stroke:#5a606e;fill:none}")


def linked(text):
    """{name of a box: those that it links} of the folders' libraries and the two programs."""
    rows = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    names = {f"phasescope_{name}": f"{name}/" for name in folders(rows)} | PROGRAMS | SECOND
    # The parts of training/ and worker/ that need no LibTorch.
    names |= {name: name.removeprefix("phasescope_").replace("_core", "/") for name in rows if name.endswith("_core")}
    found = {}
    for target, name in names.items():
        parts = set(re.split(r"[\s,:<>$]+", rows.get(target, "").replace("phasescope::", "phasescope_")))
        own = {names[part] for part in parts if part in names}
        others = {title for key, title in OTHERS.items() if key in parts}
        found[name] = found.get(name, set()) | ((own | others) - {name})
    for title in OTHERS.values():
        if any(title in below for below in found.values()):
            found[title] = set()
    if not found.get("phasescope") or not found.get("phasescope-worker"):
        raise DevError("layers.txt of the build folder lacks the programs; ./dev build makes it")
    return found


def folders(rows):
    """Targets that are a folder of the sources."""
    targets = [target.removeprefix("phasescope_") for target in rows if target.startswith("phasescope_")]
    return [name for name in targets if (ROOT / name / "CMakeLists.txt").exists()]


def reached(graph, start):
    """All that a box depends on, however far below."""
    seen, waiting = set(), list(graph[start])
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += graph[one]
    return seen


def reduced(graph):
    """Without what follows: a -> c where a -> b -> c."""
    return {name: {one for one in below
                   if not any(one in reached(graph, other) for other in below if other != one)}
            for name, below in graph.items()}


def floors(graph):
    """Boxes from the ground up: each one floor above the highest that it depends on."""
    height = {}

    def floor_of(name):
        if name not in height:
            height[name] = 1 + max((floor_of(one) for one in graph[name]), default=-1)
        return height[name]

    for name in graph:
        floor_of(name)
    return [sorted(name for name in graph if height[name] == level) for level in range(max(height.values()) + 1)]


def untangled(levels, graph):
    """The same boxes of each floor, near to what they are joined to, so that fewer lines cross."""
    joined = {name: set(graph[name]) | {one for one in graph if name in graph[one]} for name in graph}
    for _ in range(8):
        places = {name: number - len(level) / 2 for level in levels for number, name in enumerate(level)}
        levels = [sorted(level, key=lambda name: (sum(places[one] for one in joined[name]) / len(joined[name]), name))
                  for level in levels]
    return levels


def picture(text):
    graph = reduced(linked(text))
    levels = untangled(floors(graph), graph)
    wide = max(len(level) for level in levels) * (WIDTH + GAP) - GAP + 2 * EDGE
    high = (len(levels) - 1) * STEP + HEIGHT + 2 * EDGE
    places = {}
    for number, level in enumerate(levels):
        left = (wide - len(level) * (WIDTH + GAP) + GAP) / 2
        for column, name in enumerate(level):
            places[name] = (left + column * (WIDTH + GAP), high - EDGE - HEIGHT - number * STEP)
    arrows = [arrow(places[name], places[one]) for name in sorted(graph) for one in sorted(graph[name])]
    boxes = [box(name, *place) for name, place in sorted(places.items())]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" height="{high:g}">',
        '<title>What each part of Phasescope links</title>', f"<style>{STYLE}</style>",
        f'<rect width="{wide:g}" height="{high:g}" style="fill:#fff;stroke:none"/>',
        '<marker id="m" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#5a606e"/></marker>', *arrows, *boxes, "</svg>"]) + "\n"


def arrow(above, below):
    x, y = above[0] + WIDTH / 2, above[1] + HEIGHT
    to, end = below[0] + WIDTH / 2, below[1] - 1
    middle = (y + end) / 2
    return f'<path d="M{x:g} {y:g}C{x:g} {middle:g} {to:g} {middle:g} {to:g} {end:g}" marker-end="url(#m)"/>'


def box(name, x, y):
    kind = ' class="program"' if name in PROGRAMS.values() else "" if name.endswith("/") else ' class="other"'
    return (f'<rect{kind} x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}"/>'
            f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 5:g}">{escape(name)}</text>')


def draw():
    layers = BUILD / "release" / "layers.txt"
    if not layers.exists():
        raise DevError("there is no build to read; ./dev build first")
    PICTURE.write_text(picture(layers.read_text(encoding="utf-8")), encoding="utf-8")
    say(f"wrote {PICTURE.relative_to(ROOT)}")
    return 0
