"""What the libraries are called where there is no dpkg. Nothing is installed there: one line says what to
type. The names are those of the distributions' package lists; a release may have another."""

import shutil

from .console import output_of, say
from .paths import DEPS, read_mark, write_mark

SAID = DEPS / "other_system_said"

# Package manager: (how it installs, how it lists which of some names are installed, the names).
MANAGERS = {
    "dnf": ("sudo dnf install", ["rpm", "-q", "--qf", "%{NAME}\\n"], """
        gcc-c++ pkgconf-pkg-config json-devel gtest-devel cli11-devel pcre2-devel utf8proc-devel highway-devel
        freetype-devel fribidi-devel librsvg2-devel mesa-libGL-devel wayland-devel libxkbcommon-devel
        libXrandr-devel libXinerama-devel libXcursor-devel libXi-devel mesa-dri-drivers"""),
    "pacman": ("sudo pacman -S --needed", ["pacman", "-Qq"], """
        gcc pkgconf nlohmann-json gtest cli11 pcre2 libutf8proc highway freetype2 fribidi librsvg libglvnd
        wayland libxkbcommon libxrandr libxinerama libxcursor libxi mesa"""),
    "zypper": ("sudo zypper install", ["rpm", "-q", "--qf", "%{NAME}\\n"], """
        gcc-c++ pkgconf nlohmann_json-devel gtest cli11-devel pcre2-devel utf8proc-devel highway-devel
        freetype2-devel fribidi-devel librsvg-devel Mesa-libGL-devel wayland-devel libxkbcommon-devel
        libXrandr-devel libXinerama-devel libXcursor-devel libXi-devel Mesa-dri"""),
}


def say_what_is_needed():
    """One sentence, the first time: what to type here, or that the libraries are looked for as they are."""
    sentence = what_is_needed()
    if sentence and read_mark(SAID) != sentence:
        say(sentence)
        write_mark(SAID, sentence)


def what_is_needed():
    """The sentence; empty where everything is there."""
    manager = next((name for name in MANAGERS if shutil.which(name)), None)
    if manager is None:
        return ("there are neither Debian packages nor dnf, pacman or zypper on this system; looking for the "
                "libraries as they are (tools/dev_tool/pins/debian.txt lists them)")
    how, listing, names = MANAGERS[manager]
    lacking = [name for name in names.split() if output_of([*listing, name]) is None]
    if not lacking:
        return ""
    return (f"there are no Debian packages on this system; with {manager}, what is missing here is installed by\n"
            f"  {how} {' '.join(lacking)}\nGoing on with the libraries that are there")
