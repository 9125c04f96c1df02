"""The verbs of ./dev."""

import argparse
import os
import signal
import subprocess
import sys

from . import build, carry, doctor, gpu_test, lint, parity, test
from .console import DevError, clear_progress, say
from .paths import BUILD, OUT

PROGRAM = BUILD / "release" / "bin" / "phasescope"


def main(arguments):
    # Ended like an interruption by the keyboard, or what was started here would go on (nohup stays).
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        return dispatch(arguments)
    except DevError as error:
        say(str(error))
        return error.status
    except KeyboardInterrupt:
        clear_progress()
        say("interrupted; the same command goes on from here")
        return 130


def interrupt(*_):
    raise KeyboardInterrupt


def dispatch(arguments):
    # What follows `run` and `bench` belongs to the program, options included.
    if arguments[:1] == ["run"]:
        return run(arguments[1:])
    if arguments[:1] == ["bench"]:
        return run_program(["bench", *arguments[1:]])
    options, extra = parser().parse_known_args(arguments)
    if extra and options.verb != "test":
        raise DevError(f"./dev {options.verb} does not take {' '.join(extra)}; see ./dev --help", 2)
    options.extra = [word for word in extra if word != "--"]
    return VERBS[options.verb](options) or 0


def parser():
    top = argparse.ArgumentParser(prog="./dev", description="Builds, runs and tests Phasescope.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("run", help="build and run phasescope with the arguments that follow")
    verbs.add_parser("bench", help="build and run phasescope bench with the arguments that follow")
    one = verbs.add_parser("test", help="build and run the tests; further options go to ctest")
    one.add_argument("--quick", action="store_true", help="leave out slow tests and the sanitizers")
    one.add_argument("--long", action="store_true", help="run the long tests too")
    one.add_argument("--gpu", action="store_true", help="the GPU tests, with what this machine has")
    one.add_argument("--werror", action="store_true", help="warnings are errors (CI=true does it too)")
    one = verbs.add_parser("build", help="fetch, configure and build")
    one.add_argument("--preset", choices=build.PRESETS, default="release")
    one.add_argument("--werror", action="store_true", help="warnings are errors (CI=true does it too)")
    one = verbs.add_parser("lint", help="formatting and layers")
    one.add_argument("--fix", action="store_true", help="format the files instead of naming them")
    verbs.add_parser("setup", help="fetch everything that is missing")
    verbs.add_parser("doctor", help="what this machine has and lacks")
    verbs.add_parser("parity", help="make docs/parity.md again from the tests that compare with references")
    verbs.add_parser("docs", help="make the page of methods in docs/protocol.md again")
    verbs.add_parser("carry", help="collect into .carry/ what test --gpu needs on a machine without network")
    return top


def run(arguments):
    if arguments or has_display():
        return run_program(arguments)
    build.build("release", ["phasescope_programs"])
    return first_session_without_display()


def run_program(arguments):
    """Becomes phasescope: its output, its signals and its exit status are the program's own."""
    build.build("release", ["phasescope_programs"])
    clear_progress()
    if not PROGRAM.exists():
        raise DevError(f"the build made no {PROGRAM}; ./dev doctor says what is missing")
    os.execv(PROGRAM, [str(PROGRAM), *arguments])


def has_display():
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def first_session_without_display():
    """The picture of the window and the report that a newcomer would have looked at."""
    say(f"no display (neither DISPLAY nor WAYLAND_DISPLAY is set): rendering the first session into {OUT}/")
    OUT.mkdir(exist_ok=True)
    for arguments in (
            ["view", "rope", "tapa_norm", "--screenshot", OUT / "window.png", "--frames", "3"],
            ["report", "rope", "tapa", "--out", OUT / "report"]):
        say("phasescope " + " ".join(map(str, arguments)))
        done = subprocess.run([str(PROGRAM), *map(str, arguments)], stdin=subprocess.DEVNULL,
                              stdout=sys.stderr.fileno())
        if done.returncode != 0:
            return done.returncode
    say(f"look at {OUT}/window.png and {OUT}/report/")
    return 0


def run_tests(options):
    if options.gpu:
        return gpu_test.test(options.extra)
    return test.test(options.quick, options.long, options.werror, options.extra)


def make_docs():
    """The page of methods, written by the test that says whether it is fresh."""
    folder = build.build("release", ["worker_test"])
    done = subprocess.run([folder / "bin" / "worker_test", "--gtest_filter=Handlers.ThePageOfMethods*"],
                          env={**os.environ, "PHASESCOPE_WRITE_DOCS": "1"}, stdin=subprocess.DEVNULL,
                          stdout=sys.stderr.fileno())
    return done.returncode


def set_up(_):
    build.set_up()
    say("everything is there")


VERBS = {
    "test": run_tests,
    "build": lambda options: build.build(options.preset, werror=options.werror) and 0,
    "lint": lambda options: lint.lint(options.fix),
    "setup": set_up,
    "doctor": lambda _: doctor.doctor(),
    "parity": lambda _: parity.parity(),
    "docs": lambda _: make_docs(),
    "carry": lambda _: carry.carry(),
}
