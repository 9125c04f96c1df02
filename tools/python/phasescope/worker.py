"""A worker and what it answers."""

import array
import os
import queue
import select
import shlex
import socket
import subprocess
import threading
import time
from collections import deque

from . import frames, programs
from .drawn import figures_of_command
from .failure import Failure

_HEARTBEAT_SECONDS = 5
_HANDSHAKE_SECONDS = 120
_SSH = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", "--"]


class Result(dict):
    """What a method returns, as docs/results.md has it, and its arrays by name in `tensors`."""

    def __init__(self, body, tensors, host=None):
        super().__init__(body)
        self.tensors, self.host = tensors, host

    @property
    def command(self):
        """The command line that makes this answer again; "" where it has none."""
        return self.get("provenance", {}).get("command", "")

    def figures(self):
        """The figures that the command line draws of this answer, for a notebook."""
        if not self.command:
            raise ValueError("this answer has no command that draws it")
        return figures_of_command(shlex.split(self.command)[1:], self.host)


class Worker:
    """One process that answers requests, here or on another host (over ssh). May be used from several
    threads; closes at the end of a `with`, or of the program."""

    def __init__(self, device="", threads=0, host=None):
        self.host = host
        words = [f"--device={device}"] * bool(device) + [f"--threads={threads}"] * bool(threads)
        ours, theirs = socket.socketpair()
        argv = [*_SSH, host, shlex.join(["phasescope", "worker", *words])] if host else [programs.worker(), *words]
        # A group of its own: an interrupt in a notebook's terminal cancels a request, not the worker.
        self._process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
                                         start_new_session=True)
        theirs.close()
        self._socket = ours
        self._said = deque(maxlen=64)
        self._files = deque()
        self._send_lock, self._lock = threading.Lock(), threading.Lock()
        self._waiting, self._last_id, self._ended = {}, 0, None
        self._sent_at = time.monotonic()
        self._greeted, self.hello = queue.Queue(), None
        threading.Thread(target=self._read_errors, daemon=True).start()
        threading.Thread(target=self._read_frames, daemon=True).start()
        transports = ["inline"] + ["memfd"] * (host is None)
        self._send(frames.HELLO, 0, {"protocol": frames.VERSION, "program": "phasescope-python", "version": "0.1.0",
                                     "transports": transports, "host": socket.gethostname(),
                                     "process_id": os.getpid()})
        try:
            greeting = self._greeted.get(timeout=_HANDSHAKE_SECONDS)
        except queue.Empty:
            self.close()
            raise Failure("worker_died", "the worker said nothing for two minutes") from None
        if isinstance(greeting, Failure):
            raise greeting.again()
        self.hello = greeting

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, method, /, progress=None, **parameters):
        """The Result of a method of docs/protocol.md, with its parameters by name. `progress(fraction,
        text)` is told how far it is; an interrupt from the keyboard cancels it. Throws Failure, and
        TypeError or ValueError for what no request can hold."""
        parameters = {frames.plain(name): frames.plain(value, name) for name, value in parameters.items()
                      if value is not None}
        answers = queue.Queue()
        with self._lock:
            if self._ended:
                raise self._ended.again()
            self._last_id += 1
            request = self._last_id
            self._waiting[request] = answers
        try:
            self._send(frames.REQUEST, request, {"method": method, "params": parameters})
            return self._answer(answers, progress)
        except BaseException:
            self._cancel(request)
            raise
        finally:
            with self._lock:
                self._waiting.pop(request, None)

    @property
    def ended(self):
        """Whether it answers no more: it was closed, or died."""
        return self._ended is not None

    def close(self):
        """Ends the worker."""
        self._end(Failure("cancelled", "the worker was closed"))
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()
        try:
            self._process.wait(timeout=6)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stderr.close()

    def _answer(self, answers, progress):
        while True:
            kind, body, tensors = answers.get()
            if kind == frames.RESULT:
                return Result(body, tensors, self.host)
            if kind == frames.PROGRESS:
                if progress:
                    progress(body.get("fraction", -1), body.get("text", ""))
            elif isinstance(body, Failure):
                raise body.again()
            else:
                raise Failure(*(body.get(key, "") for key in ("code", "message", "where", "hint")))

    def _cancel(self, request):
        try:
            with self._lock:
                waits = request in self._waiting and not self._ended
            if waits:
                self._send(frames.CANCEL, request, {})
        except OSError:
            pass

    def _send(self, kind, request, body):
        data = frames.encode(kind, request, body)
        with self._send_lock:
            self._sent_at = time.monotonic()
            try:
                self._socket.sendall(data)
            except OSError as error:
                # Who reads may not have seen yet that it is gone, or have its last words.
                self._end(self._death(error))
                raise self._ended.again() from None

    def _read_errors(self):
        for line in self._process.stderr:
            self._said.append(line.decode(errors="replace").rstrip())

    def _read_frames(self):
        try:
            while self._ended is None:
                self._take(self._read_frame())
        except Exception as error:  # whatever it is, who waits must be told
            self._end(self._death(error))

    def _take(self, frame):
        preamble, body, tensors = frame
        if preamble.kind == frames.HELLO:
            self._greeted.put(body)
        elif preamble.kind in (frames.FATAL, frames.CLOSING):
            raise FrameEnd(body.get("message") or body.get("reason") or "it closed")
        elif preamble.kind != frames.HEARTBEAT:
            with self._lock:
                answers = self._waiting.get(preamble.request)
            if answers:
                answers.put((preamble.kind, body, tensors))

    def _read_frame(self):
        preamble = frames.Preamble(self._exactly(frames.PREAMBLE_BYTES))
        rest = self._exactly(preamble.header_bytes + preamble.payload_bytes + 4)
        descriptor = self._files.popleft() if preamble.has_file else None
        return (preamble, *frames.decode(preamble, rest, descriptor))

    def _exactly(self, count):
        data = bytearray(count)
        view = memoryview(data)
        while view:
            ready, _, _ = select.select([self._socket], [], [], 1)
            if time.monotonic() - self._sent_at > _HEARTBEAT_SECONDS:
                self._send(frames.HEARTBEAT, 0, {})
            if not ready:
                continue
            got = self._receive(view)
            if not got:
                raise EOFError
            view = view[got:]
        return bytes(data)

    def _receive(self, view):
        room = socket.CMSG_LEN(8 * array.array("i").itemsize)
        got, ancillary, _, _ = self._socket.recvmsg_into([view], room)
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors = array.array("i")
                descriptors.frombytes(data[:len(data) - len(data) % descriptors.itemsize])
                self._files.extend(descriptors)
        return got

    def _death(self, error):
        try:
            status = self._process.wait(timeout=2)
            how = f"killed by signal {-status}" if status < 0 else f"left with status {status}"
        except subprocess.TimeoutExpired:
            how = str(error) or type(error).__name__
        words = "; it said: " + " / ".join(list(self._said)[-5:]) if self._said else ""
        reason = f" ({error})" if isinstance(error, FrameEnd) else ""
        return Failure("worker_died", f"the worker is gone: {how}{reason}{words}",
                       hint="phasescope.open() starts another one" if self.hello else "")

    def _end(self, failure):
        with self._lock:
            if self._ended:
                return
            self._ended = failure
            waiting = list(self._waiting.values())
        self._greeted.put(failure)
        for answers in waiting:
            answers.put((frames.ERROR, failure, {}))


class FrameEnd(RuntimeError):
    """The worker's last words."""
