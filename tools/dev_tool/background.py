"""Work that goes on beside other work, in a thread of its own."""

import threading
import time

from .console import showing


class Background:
    """`work` runs from now on; `wait()` returns what it returned, or raises what it raised. The thread
    does not keep ./dev from ending: who ends early calls console.end_running()."""

    def __init__(self, name, work):
        self.name = name
        self.seconds = 0.0
        self._result = self._error = None
        self._done = threading.Event()
        self._work = work
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self):
        begin = time.monotonic()
        try:
            self._result = self._work()
        except BaseException as error:  # the one who waits gets it
            self._error = error
        finally:
            self.seconds = time.monotonic() - begin
            self._done.set()

    def done(self):
        return self._done.is_set()

    def failed(self):
        return self.done() and self._error is not None

    def join(self, seconds):
        """Waits at most so long; says whether the work is done. Raises nothing."""
        return self._done.wait(seconds)

    def wait(self):
        if not self.done():
            with showing(None):
                self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result
