"""What has to be fetched, its parts beside each other and beside compiling."""

import threading

from . import debian, machine, sources, wheels
from .background import Background
from .console import say, showing


class Fetching:
    """Fetches what is missing from now on; `tests`: the packages that only tests need, too."""

    def __init__(self, tests=True):
        machine.check()
        self._tools = threading.Event()
        self._packages = Background("Debian packages", lambda: debian.install(tests))
        self._archives = Background("Dear ImGui", sources.install)
        self._wheels = Background("LibTorch and tools", self._fetch_wheels)

    def _fetch_wheels(self):
        try:
            return wheels.install(self._tools)
        finally:
            self._tools.set()

    def wait_for_compiling(self):
        """Until there is all that the window is built with: everything but LibTorch."""
        self._packages.wait()
        self._archives.wait()
        with showing(None):
            self._tools.wait()
        if self._wheels.failed() and not wheels.there(wheels.TOOLS):
            self._wheels.wait()
        machine.check_compiler()

    def has_torch(self):
        """Whether LibTorch, and all else, is there."""
        return self._wheels.done() and not self._wheels.failed()

    def wait(self):
        """Until everything is there; says what took how long."""
        parts = (self._packages, self._archives, self._wheels)
        fetched = [part for part in parts if part.wait()]
        if fetched:
            say("fetched: " + ", ".join(f"{part.name} in {part.seconds:.0f} s" for part in fetched))
