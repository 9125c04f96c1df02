"""The verbs of ./dev."""

import argparse
import os
import signal
import subprocess
import sys

from . import (bench_import, build, carry, debian, doctor, first_window, gpu_test, guards, house, lint, looks, new, package, parity,
               pictures, roofline, test, wheels)
from .console import STOPPING, DevError, clear_progress, end_running, say
from .first_window import PICTURE, PROGRAM, WORKER, FirstPicture
from .paths import OUT, ROOT

CUDA_HELP = "compile the CUDA kernels where there is no GPU driver, too"
RECORDING = ROOT / "assets" / "first_session.safetensors"


def main(arguments):
    # Ended like an interruption by the keyboard, or what was started here would go on (nohup stays).
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    STOPPING.clear()
    try:
        return dispatch(arguments)
    except DevError as error:
        end_running()
        say(str(error))
        return error.status
    except KeyboardInterrupt:
        end_running()
        clear_progress()
        say("interrupted; the same command goes on from here")
        return 130


def interrupt(*_):
    raise KeyboardInterrupt


def dispatch(arguments):
    if not arguments:
        parser().print_help(sys.stderr)
        return 2
    # What follows `run` and `bench` belongs to the program, options included; --cuda before that is ours.
    if arguments[:1] == ["run"]:
        return run(without_cuda(arguments[1:]))
    if arguments[:1] == ["bench"]:
        words = without_cuda(arguments[1:])
        if words[:1] == ["--import"]:
            return bench_import.take(words[1:])
        return run_program(["bench", *words])
    options, extra = parser().parse_known_args(arguments)
    if getattr(options, "cuda", False):
        without_cuda(["--cuda"])
    if extra and options.verb != "test":
        raise DevError(f"./dev {options.verb} does not take {' '.join(extra)}; see ./dev --help", 2)
    options.extra = [word for word in extra if word != "--"]
    return VERBS[options.verb](options) or 0


def without_cuda(arguments):
    """The arguments after a leading --cuda, which asks for the CUDA kernels where no driver is."""
    if arguments[:1] != ["--cuda"]:
        return arguments
    os.environ[wheels.ASKED_FOR_CUDA] = "1"
    return arguments[1:]


def parser():
    top = argparse.ArgumentParser(prog="./dev", description="Builds, runs and tests Phasescope.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("run", help="build and run phasescope with the arguments that follow (--cuda first: "
                    "with the CUDA kernels)")
    verbs.add_parser("bench", help="build and run phasescope bench with the arguments that follow (--import FILE: "
                    "take what a GPU machine has said, see carry)")
    one = verbs.add_parser("test", help="build and run the tests; further options go to ctest")
    one.add_argument("--quick", action="store_true", help="leave out slow tests and the sanitizers")
    one.add_argument("--long", action="store_true", help="run the long tests too")
    one.add_argument("--cuda", action="store_true", help=CUDA_HELP)
    one.add_argument("--gpu", action="store_true", help="the GPU tests, with what this machine has")
    one.add_argument("--werror", action="store_true", help="warnings are errors (CI=true does it too)")
    one = verbs.add_parser("build", help="fetch, configure and build")
    one.add_argument("--preset", choices=build.PRESETS, default="release")
    one.add_argument("--cuda", action="store_true", help=CUDA_HELP)
    one.add_argument("--slowest", action="store_true", help="name the files that took longest to compile")
    one.add_argument("--werror", action="store_true", help="warnings are errors (CI=true does it too)")
    one = verbs.add_parser("lint", help="formatting, layers, spelling, subjects of commits and clang-tidy")
    one.add_argument("--fix", action="store_true", help="format the files instead of naming them")
    one.add_argument("--all", action="store_true", help="clang-tidy on every file, not only on those that changed")
    verbs.add_parser("setup", help="fetch everything that is missing")
    verbs.add_parser("doctor", help="what this machine has and lacks")
    verbs.add_parser("parity", help="make docs/parity.md again from the tests that compare with references")
    verbs.add_parser("docs", help="make the pages that follow from lists (methods, results, verbs, what is registered) again")
    verbs.add_parser("roofline", help="write what the CUDA kernels can reach by count into docs/cuda.md again")
    one = verbs.add_parser("guards", help="take what holds the rows of docs/reliability.md out of a copy of the sources, "
                           "one after the other, and see their tests fail; goes on where it was ended")
    one.add_argument("--only", nargs="+", type=int, default=[], metavar="ROW", help="these rows alone")
    one.add_argument("--again", action="store_true", help="those that have been seen, too")
    verbs.add_parser("house", help="draw docs/house.svg again, what each target of the build links")
    verbs.add_parser("pictures", help="draw the pictures of the documents again, each by the command above it")
    one = verbs.add_parser("looks", help="draw every view in software and show which look otherwise than before")
    one.add_argument("--update", action="store_true", help="take the looks of now for right")
    one.add_argument("--scale", type=float, default=1, help="draw them so large, 0.75 to 3, to be looked at alone")
    verbs.add_parser("record", help="make the recording anew that the window shows before it has a worker")
    one = verbs.add_parser("new", help="the files, lines and test of a new thing, to be filled in")
    one.add_argument("kind", choices=new.KINDS)
    one.add_argument("name", help="small letters, digits and _")
    one.add_argument("--remove", action="store_true", help="take it back, as long as nobody has worked on it")
    verbs.add_parser("package", help="a .deb, an archive and a Python wheel, in out/packages")
    one = verbs.add_parser("carry", help="collect into .carry/ what test --gpu needs on a machine without network")
    one.add_argument("--out", metavar="DIR", help="make a bundle of programs there instead, with the one script that "
                     "tries them on a bare GPU machine within ten minutes")
    one.add_argument("--emulated", action="store_true", help="with --out: the emulation in place of a device, to try it")
    return top


def run(arguments):
    if arguments:
        return run_program(arguments)
    if has_display():
        return run_program([]) if WORKER.exists() else first_window.run()
    picture = FirstPicture()
    build.build("release", [build.PROGRAMS], tests=False, window_built=None if WORKER.exists() else picture.begin)
    picture.end()
    return first_session_without_display()


def run_program(arguments):
    """Becomes phasescope: its output, its signals and its exit status are the program's own."""
    build.build("release", [build.PROGRAMS], tests=False)
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
    for arguments in (PICTURE, ["report", "rope", "tapa", "--out", OUT / "report"]):
        say("phasescope " + " ".join(map(str, arguments)))
        status = run_on_stderr(arguments)
        if status != 0:
            return status
    say(f"look at {OUT}/window.png and {OUT}/report/")
    return 0


def run_on_stderr(arguments):
    """The exit status of phasescope, whose output goes to stderr."""
    return subprocess.run([str(PROGRAM), *map(str, arguments)], stdin=subprocess.DEVNULL,
                          stdout=sys.stderr.fileno()).returncode


def record():
    build.build("release", [build.PROGRAMS], tests=False)
    status = run_on_stderr(["view", "--record", RECORDING])
    if status == 0:
        say(f"wrote {RECORDING.relative_to(ROOT)}")
    return status


def run_tests(options):
    if options.gpu:
        return gpu_test.test(options.extra)
    return test.test(options.quick, options.long, options.werror, options.extra)


def make_docs():
    """The pages that follow from registries, written by the tests that say whether they are fresh."""
    folder = build.build("release", ["worker_test", "protocol_test", "analysis_test", "app_test"])
    subprocess.run([sys.executable, "-B", ROOT / "tests" / "build" / "reliability_test.py", "--write"], check=True)
    for program, test_name in (("worker_test", "Handlers.ThePageOfMethods*:*ThePageOfQuestions*:RegisteredPage.IsFresh"),
                               ("protocol_test", "ResultsPage.IsFresh"), ("analysis_test", "TheoryPage.IsFresh"),
                               ("app_test", "VerbsPage.IsFresh")):
        done = subprocess.run([folder / "bin" / program, f"--gtest_filter={test_name}"],
                              env={**os.environ, "PHASESCOPE_WRITE_DOCS": "1"}, stdin=subprocess.DEVNULL,
                              stdout=sys.stderr.fileno())
        if done.returncode:
            return done.returncode
    return 0


def build_preset(options):
    folder = build.build(options.preset, werror=options.werror)
    if options.slowest:
        say(build.slowest_line(folder))
    return 0


def set_up(_):
    debian.try_again()
    build.set_up()
    say("everything is there")


VERBS = {
    "test": run_tests,
    "build": build_preset,
    "lint": lambda options: lint.lint(options.fix, options.all),
    "setup": set_up,
    "doctor": lambda _: doctor.doctor(),
    "parity": lambda _: parity.parity(),
    "docs": lambda _: make_docs(),
    "roofline": lambda _: roofline.write(),
    "guards": lambda options: guards.guards(options.only, options.again),
    "house": lambda _: house.draw(),
    "pictures": lambda _: pictures.draw(),
    "looks": lambda options: looks.looks(options.update, options.scale),
    "record": lambda _: record(),
    "new": lambda options: new.new(options.kind, options.name, options.remove),
    "package": lambda _: package.package(),
    "carry": lambda options: carry.carry(options.out, options.emulated),
}
