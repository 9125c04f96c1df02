"""The built programs as a shell runs them: every verb's example as it stands, the commands in sidecars,
names that are odd or a bundled model's, and damaged checkpoints, which get one sentence and status 2."""

import contextlib
import json
import os
import re
import shutil
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
PROGRAMS = Path(os.environ.get("PHASESCOPE_BUILD", SOURCE / "build/release")) / "bin"
ROPE = SOURCE / "assets/models/rope"
ODD = "it's $HOME \"q\" `x` &;*"


def shell(command, folder, seconds=600):
    """A command line in a POSIX shell, with the built programs in the path; ended with all it started."""
    child = subprocess.Popen(
        ["bash", "-c", "set -eo pipefail\n" + command], cwd=folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "OMP_WAIT_POLICY": "passive"})
    try:
        stdout, stderr = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise
    return subprocess.CompletedProcess(command, child.returncode, stdout, stderr)


def phasescope(*words, folder=None, seconds=60):
    """A command; without the lines of progress that a busy machine makes it say."""
    done = subprocess.run([str(PROGRAMS / "phasescope"), *words], cwd=folder, capture_output=True,
                          text=True, errors="replace", timeout=seconds, stdin=subprocess.DEVNULL)
    done.stderr = re.sub(r"(?m)^ *\d+ % .*\n", "", done.stderr)
    return done


def verbs():
    lines = phasescope("--help").stdout.splitlines()
    listed = lines[lines.index(next(line for line in lines if line.lower().startswith("subcommands"))) + 1:]
    return [line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "]


def example_of(verb):
    text = phasescope(verb, "--help").stdout
    return text[text.index("Example"):].split("\n", 1)[1].strip()


def has_children(pid):
    """Of whichever of its threads; one that ends meanwhile has none."""
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            if file.read_text(encoding="utf-8"):
                return True
    return False


class InAFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)


class Examples(InAFolder):
    """In a folder that has what the project's has."""

    def test_they_run_as_they_stand(self):  # 17.A10, 17.B12
        os.symlink(SOURCE / "sample_configs", self.folder / "sample_configs")
        names = verbs()
        self.assertGreater(len(names), 18)
        for verb in names:
            example = example_of(verb)
            self.assertIn(f"phasescope {verb}", example)
            with self.subTest(example=example):
                done = shell(example, self.folder)
                self.assertEqual((done.returncode, done.stderr.count("phasescope: ")), (0, 0), done.stderr)

    def test_pages_name_options_that_there_are(self):  # 17.A10
        there = {verb: set(re.findall(r"(?m)^ +(?:-\w,)?(--[a-z][\w-]*)", phasescope(verb, "--help").stdout))
                 for verb in verbs()}
        named = 0
        for page in (SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *(SOURCE / "docs").glob("*.md"),
                     *(SOURCE / "assets/claims").glob("*")):
            text = page.read_text(encoding="utf-8")
            for verb, words in re.findall(r"(?:phasescope|\./dev run) +([a-z]+)\b([^\n`\"|]*)", text):
                if verb not in there:
                    continue
                options = set(re.findall(r"(?<![=\w-])--[a-z][\w-]*", words.split(" # ")[0].split("&&")[0]))
                named += 1
                self.assertLessEqual(options, there[verb], f"{page.name}: {verb} {words}")
        self.assertGreater(named, 200)


def commands_of(page):
    """The indented lines that call phasescope, continued lines in one, in their order."""
    lines = page.replace("\\\n", "").splitlines()
    return [line.strip() for line in lines if re.match("    (  )?phasescope ", line)]


def shortened(command):
    """The same in seconds: two steps of a training, a sweep's table, what was measured so far."""
    words = shlex.split(command)
    before = list(words)
    if words[1] == "train" and "--resume" not in words and "--background" not in words:
        words += ["--set", "train.steps=2", "--set", "eval.windows=2"]
    if words[1:3] == ["eval", "perplexity"]:
        words += ["--trials", "2"]
    if words[1] == "sweep" and "--table" not in words:
        words = [word for word in words if word not in ("--jobs", "2")] + ["--table"]
    if words[1] == "reproduce" and "--budget" in words:
        words = [word for word in words if word not in ("--desk", "--budget", "480")]
    return command if words == before else shlex.join(words)  # a pipe stays one


class Desk(InAFolder):
    """Commands of claims: what is lost, and docs/desk_results.md, which is made of what was kept, elsewhere too."""

    def test_a_worker_that_is_lost_costs_one_command(self):
        worker = self.folder / "worker"  # its first process ends at once, the later ones are real
        worker.write_text(f"#!/bin/sh\nmkdir '{self.folder}/first' 2>/dev/null && exit 3\n"
                          f"exec '{PROGRAMS}/phasescope-worker' \"$@\"\n", encoding="utf-8")
        worker.chmod(0o755)
        done = subprocess.run([str(PROGRAMS / "phasescope"), "reproduce", "2405.14722", "--desk", "--only", "Section 3",
                               "--json"], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, env={**os.environ, "PHASESCOPE_WORKER": str(worker)})
        verdicts = {row["item"]: row["verdict"] for row in json.loads(done.stdout)["rows"]}
        self.assertEqual(verdicts["Section 3.1"], "cannot tell", verdicts)
        self.assertEqual(verdicts["Section 3.2, adaptivity"], "agrees", verdicts)

    def test_the_page_is_of_what_was_kept(self):
        page, kept = SOURCE / "docs/desk_results.md", SOURCE / "docs/desk_results"
        os.symlink(SOURCE / "sample_configs", self.folder / "sample_configs")
        shutil.copytree(kept, self.folder / "docs/desk_results")
        self.leave_a_job_half_done(kept / "even_pairs.jsonl")
        done = phasescope("reproduce", "--kept", "docs/desk_results", "--out", "docs/desk_results.md",
                          folder=self.folder, seconds=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "docs/desk_results.md").read_text(encoding="utf-8"),
                         page.read_text(encoding="utf-8"))
        for file in kept.iterdir():  # and reading changes nothing
            self.assertEqual((self.folder / "docs/desk_results" / file.name).read_bytes(), file.read_bytes(), file)

    def leave_a_job_half_done(self, kept):
        """As an earlier --desk leaves one that was ended: the same training, short of its last step, not evaluated."""
        line = json.loads(kept.read_text(encoding="utf-8").splitlines()[0])
        job = self.folder / "out/reproduce/jobs" / kept.stem / line["name"]
        job.mkdir(parents=True)
        (job / "config.json").write_text(json.dumps(line["asked"]), encoding="utf-8")
        (job / "status.json").write_text(json.dumps({**line["status"], "state": "cancelled", "step": 7}),
                                         encoding="utf-8")


class Training(InAFolder):
    """Every command of docs/training.md, in its order, in a folder that has what the project's has."""

    ELSEWHERE = ("--slurm",)  # elsewhere_test.py runs them, on a Slurm of its own

    def test_the_pages_commands_run(self):
        for name in ("sample_configs", "assets"):
            os.symlink(SOURCE / name, self.folder / name)
        shutil.copytree(SOURCE / "docs/desk_results", self.folder / "docs/desk_results")
        commands = commands_of((SOURCE / "docs/training.md").read_text(encoding="utf-8"))
        self.assertGreater(len(commands), 45)
        places = "".join(f"export {name}='{self.folder}/{name}'\n" for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"))
        for command in commands:
            if any(word in command for word in self.ELSEWHERE):
                continue
            with self.subTest(command=command):
                done = shell(places + shortened(command), self.folder)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_duel_of_a_model_with_itself_decides_nothing(self):
        done = phasescope("duel", "rope", "rope", "--lengths", "64", folder=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^undecided: 0 \[0, 0\] bits a token")
        self.assertIn("no difference at all", done.stdout)
        self.assertNotIn("better", done.stdout)

    def test_shortened_ones_are_the_same_commands(self):
        self.assertEqual(shortened("phasescope train a.json --set train.steps=40"),
                         "phasescope train a.json --set train.steps=40 --set train.steps=2 --set eval.windows=2")
        self.assertEqual(shortened("phasescope sweep a.json --jobs 2"), "phasescope sweep a.json --table")
        for as_it_stands in ("phasescope eval copy out/c", "phasescope data copy --json | sort > 'a b'",
                             "phasescope train a.json --job out/j --background"):
            self.assertEqual(shortened(as_it_stands), as_it_stands)


class Stopping(InAFolder):
    """A sweep, whose jobs are processes of their own, ended from outside."""

    MODEL = {"vocab_size": 5, "context": 16, "layers": 1, "width": 16, "heads": 2, "kv_heads": 2, "ffn_width": 16,
             "causal": False}
    RUN = {"model": MODEL, "task": {"name": "missing_duplicate", "batch": 4, "shortest": 2, "longest": 4},
           "train": {"steps": 10_000_000, "checkpoint_every": 10_000_000, "threads": 1, "dtype": "f32"},
           "eval": {"every": 0}}

    def states(self):
        """Of the jobs that have begun, and how many steps they have made."""
        found = []
        for path in sorted(self.folder.glob("sweep/*/status.json")):
            status = json.loads(path.read_text(encoding="utf-8"))
            found.append((status["state"], status["step"]))
        return found

    def end_jobs(self):
        for path in self.folder.glob("sweep/*/status.json"):
            status = json.loads(path.read_text(encoding="utf-8"))
            if status["state"] == "running":
                os.kill(status["pid"], signal.SIGKILL)

    def test_a_picture_is_ended_by_one_interrupt(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            drawing = subprocess.Popen([str(PROGRAMS / "phasescope"), "view", "rope", "--screenshot", "views", "--size",
                                        "640x480"], cwd=self.folder, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(drawing.kill)
            deadline = time.monotonic() + 30
            # Its worker is there, of whichever thread: it draws, and no longer reads its own words.
            while time.monotonic() < deadline and not has_children(drawing.pid):
                time.sleep(0.02)
            self.assertLess(time.monotonic(), deadline)
            drawing.send_signal(number)
            # Drawn are two dozen views, each after its answers: that takes longer than this.
            self.assertEqual(drawing.wait(timeout=2), -number)

    def test_a_cell_that_fails_ends_no_other(self):
        run = {**self.RUN, "train": {**self.RUN["train"], "steps": 3}}
        plan = {"base": run, "grid": {"train.learning_rate": [1e300, 0.001]}, "jobs": 1}
        (self.folder / "sweep.json").write_text(json.dumps(plan), encoding="utf-8")
        done = subprocess.run([str(PROGRAMS / "phasescope"), "sweep", "sweep.json", "--job", "sweep"],
                              cwd=self.folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                              env={**os.environ, "XDG_DATA_HOME": str(self.folder / "data")})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(sorted(state for state, _ in self.states()), ["done", "failed"])
        self.assertIn("no finite number any more at step 2", done.stdout)
        self.assertIn("1 of 2 jobs are done", done.stdout)

    def test_what_ends_a_sweep_has_its_jobs_saved(self):
        self.addCleanup(self.end_jobs)
        plan = {"base": self.RUN, "grid": {"train.seed": [1, 2]}, "jobs": 2}
        (self.folder / "sweep.json").write_text(json.dumps(plan), encoding="utf-8")
        for number in (signal.SIGTERM, signal.SIGINT):
            sweep = subprocess.Popen([str(PROGRAMS / "phasescope"), "sweep", "sweep.json", "--job", "sweep"],
                                     cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL,
                                     env={**os.environ, "XDG_DATA_HOME": str(self.folder / "data")})
            before = [step for _, step in self.states()] or [0, 0]
            limit = time.monotonic() + 60
            while time.monotonic() < limit:
                now = self.states()
                if len(now) == 2 and all(state == "running" and step > old for (state, step), old in zip(now, before)):
                    break
                time.sleep(0.05)
            sweep.send_signal(number)
            self.assertEqual(sweep.wait(60), 0)  # and not by the signal
            now = self.states()
            self.assertEqual([state for state, _ in now], ["cancelled", "cancelled"])
            for (_, step), folder in zip(now, sorted(self.folder.glob("sweep/train*"))):
                self.assertGreater(step, 0)
                self.assertTrue((folder / f"checkpoints/step-{step}/manifest.json").is_file(), folder)


class Names(InAFolder):
    def test_commands_of_sidecars_make_the_same_files_again(self):  # 17.A10
        shutil.copytree(ROPE, self.folder / ODD)
        out = self.folder / f"out {ODD}"
        asked = {"tape/model.safetensors": ["convert", "./" + ODD, "--to", "tape", "--out", str(out / "tape")],
                 "heads.json": ["heads", "./" + ODD, "--prompt", ODD + "\n-5", "--metrics", "entropy,sink",
                                "--out", str(out / "heads.json")]}
        for words in asked.values():
            done = phasescope(*words, folder=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
        made = {name: (out / name).read_bytes() for name in asked}
        sidecar = json.loads((out / "tape/model.safetensors.json").read_text(encoding="utf-8"))
        commands = {"tape/model.safetensors": sidecar["command"],
                    "heads.json": json.loads(made["heads.json"])["made_by"]["command"]}
        shutil.rmtree(out)
        for name, command in commands.items():
            done = shell(command, self.folder)
            self.assertEqual(done.returncode, 0, command + done.stderr)
            self.assertEqual((out / name).read_bytes(), made[name], command)

    def test_a_benchmark_takes_its_file_after_json(self):
        done = phasescope("bench", "kernels", "--variants", "plain", "--passes", "forward", "--lengths", "16",
                          "--dims", "8", "--heads", "1", "--runs", "1", "--json", "out/k.json", folder=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        written = json.loads((self.folder / "out/k.json").read_text(encoding="utf-8"))
        made = written.pop("made_by")["provenance"][0]
        self.assertEqual(written, json.loads(done.stdout))
        for key in ("version", "processor", "kernel", "threads", "fma_peak_gflops", "date"):
            self.assertTrue(made[key], key)
        self.assertEqual((made["device"], made["seed"], made["runs"]), ("cpu", 0, 1))

    def test_a_measurement_is_not_lost_where_it_cannot_be_written(self):
        (self.folder / "k.csv.json").mkdir()  # where the sidecar would stand
        words = ("bench", "kernels", "--variants", "plain", "--passes", "forward", "--lengths", "16",
                 "--dims", "8", "--heads", "1", "--runs", "1", "--out", "k.csv")
        printed = phasescope(*words, folder=self.folder)
        self.assertEqual(printed.returncode, 2, printed.stderr)
        self.assertRegex(printed.stdout, r"(?m)^plain +forward")
        self.assertIn("k.csv.json", printed.stderr)
        document = json.loads(phasescope(*words, "--json", folder=self.folder).stdout)
        self.assertEqual(document["rows"][0]["variant"], "plain")
        self.assertEqual(document["error"]["code"], "bad_input")

    def test_a_benchmark_writes_its_page(self):
        page = self.folder / "docs/page.md"
        words = ("bench", "kernels", "--variants", "plain", "--passes", "forward", "--lengths", "16",
                 "--dims", "8", "--heads", "1", "--runs", "1", "--write", "docs/page.md")
        for _ in range(2):  # a new page, then its own section again
            done = phasescope(*words, folder=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = page.read_text(encoding="utf-8")
            self.assertEqual(text.count("\n## "), 1, text)
            self.assertTrue(text.startswith("# Benchmarks\n"))
        page.write_text("", encoding="utf-8")
        self.assertEqual(phasescope(*words, folder=self.folder).returncode, 0)
        self.assertIn("| plain, probes: all | 1 | 16 | 8 |", page.read_text(encoding="utf-8"))
        steps = ("bench", "step", SOURCE / "sample_configs/desk/rope.json", "--lengths", "16", "--runs", "1",
                 "--threads", "1", "--write", "docs/page.md")
        for _ in range(2):
            done = phasescope(*map(str, steps), folder=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
        text = page.read_text(encoding="utf-8")
        self.assertEqual(text.count("\n## "), 2, text)
        self.assertRegex(text, r"(?m)^## Steps of trainings, .*, 1 thread$")
        row = next(line for line in text.splitlines() if line.startswith("| rope | bf16 | 16 | 128 |"))
        self.assertNotIn("nan", row)  # a training in bfloat16 has a rival, too

    def test_a_folder_that_a_bundled_name_hides_is_told_of(self):
        shutil.copytree(SOURCE / "assets/models/alibi", self.folder / "rope")
        bundled = phasescope("info", "rope", folder=self.folder)
        self.assertIn("folder of that name here is ./rope", bundled.stderr)
        self.assertRegex(bundled.stdout, r"(?m)^encoding +rope")
        local = phasescope("info", "./rope", folder=self.folder)
        self.assertEqual(local.stderr, "")
        self.assertRegex(local.stdout, r"(?m)^encoding +alibi")
        self.assertEqual(phasescope("info", "tapa", folder=self.folder).stderr, "")
        self.assertEqual(phasescope("info", "rope", "--quiet", folder=self.folder).stderr, "")

    def test_two_folders_of_one_name_are_two_models(self):  # 17.A3
        for folder, model in (("a", "rope"), ("b", "tapa")):
            shutil.copytree(SOURCE / "assets/models" / model, self.folder / folder / "ck")
        done = phasescope("distance", "a/ck", "b/ck", "--prompt", "some text that is read twice " * 4,
                          "--pairs", "20", "--out", "out", folder=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads((self.folder / "out/result.json").read_text(encoding="utf-8"))
        self.assertEqual([model["model"] for model in result["models"]], ["a/ck", "b/ck"])
        curves = json.loads((self.folder / "out/score_by_distance.json").read_text(encoding="utf-8"))["series"]
        self.assertEqual([(curve["label"], curve.get("color", 0)) for curve in curves], [("a/ck", 0), ("b/ck", 1)])
        for name in ("score_parts_a_ck", "score_parts_b_ck"):
            self.assertTrue((self.folder / f"out/{name}.svg").is_file(), name)

    def test_a_fallback_of_attention_is_told_of_once(self):
        for verb in ("heads", "map"):
            asked = [verb, "rope", "--prompt", "a few words", "--json"]
            self.assertEqual(phasescope(*asked).stderr, "")
            done = phasescope(*asked, "--dtype", "f64")
            self.assertEqual(done.stderr, "attention ran plain (Double has no fused form)\n")
            self.assertIn('"plain (Double has no fused form)"', done.stdout)
            self.assertEqual(phasescope(*asked, "--dtype", "f64", "--backend", "plain").stderr, "")
            self.assertEqual(phasescope(*asked, "--dtype", "f64", "--quiet").stderr, "")


class Writing(InAFolder):
    """What a shell sees where a result cannot be written, or no worker is there."""

    def test_a_result_that_cannot_be_written_is_an_error(self):  # 17.A10
        asked = "phasescope heads rope --prompt hello --metrics entropy"
        for command in (asked, asked + " --json", "phasescope models --json", "phasescope models", "phasescope --help"):
            for lost in ("> /dev/full", ">&-"):
                with self.subTest(command=f"{command} {lost}"):
                    done = shell(f"{command} {lost}", self.folder)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn("the result could not be written", done.stderr)
        for closed in ("<&-", "2>&-"):
            done = shell(f"{asked} --json {closed}", self.folder)
            self.assertEqual(json.loads(done.stdout)["rows"][0]["layer"], 0)

    def test_a_host_that_cannot_be_reached_is_a_device_that_is_not_there(self):  # 17.A10
        (self.folder / "ssh").write_text("#!/bin/sh\necho could not resolve hostname >&2\nexit 255\n")
        (self.folder / "ssh").chmod(0o755)
        done = shell("PATH=.:$PATH phasescope models --remote nohost.invalid", self.folder)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("nohost.invalid", done.stderr)
        self.assertIn("could not resolve hostname", done.stderr)


class Costs(InAFolder):
    def test_a_configuration_alone_is_enough(self):
        shutil.copy(ROPE / "config.json", self.folder)
        whole = phasescope("cost", "rope", "--json")
        for name in (str(self.folder), str(self.folder / "config.json")):
            alone = phasescope("cost", name, "--json")
            self.assertEqual(alone.returncode, 0, alone.stderr)
            self.assertEqual(json.loads(alone.stdout)["executed"], json.loads(whole.stdout)["executed"])

    def test_run_configurations_are_read_whichever_sections_they_have(self):
        # All of them: tests/training/sample_configs_test.cpp.
        for name in ("desk/t5", "desk/sinusoidal_random", "paper/cape_fire_125m"):
            done = phasescope("cost", str(SOURCE / f"sample_configs/{name}.json"), "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertGreater(json.loads(done.stdout)["executed"]["macs"], 0, name)

    def test_an_encoder_with_a_decoder_has_parts_of_each(self):
        # As torch's FlopCounterMode counts transformers' T5 with this file: tests/analysis/cost_test.cpp.
        done = phasescope("cost", str(SOURCE / "tests/data/hf/models/t5"), "--length", "20", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        cost = json.loads(done.stdout)
        self.assertEqual((cost["published"]["macs"], cost["executed"]["parameters"]), (1059360, 45876))
        stacks = {part["name"].split(": ")[0] for part in cost["parts"]}
        self.assertLessEqual({"encoder", "decoder", "cross attention"}, stacks)

    def test_five_digits_are_shown(self):
        # TAPE's Table 3 by its own conventions: docs/parity.md.
        shown = phasescope("cost", str(SOURCE / "sample_configs/paper/tape_155m.json"), "--length", "1024")
        for number in ("361.44 G", "180.69 G", "155.33"):
            self.assertIn(number, shown.stdout)


def with_header(change):
    """The bundled model's file with its header changed by a function."""
    data = (ROPE / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    change(header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size:]


class Damaged(InAFolder):
    def test_row6_a_needed_tensor_of_an_unknown_type_is_listed_and_refused(self):
        shutil.copy(ROPE / "config.json", self.folder)
        name = "model.layers.0.self_attn.q_proj.weight"

        def change(header):
            header[name]["dtype"] = "F8_E4M3"

        (self.folder / "model.safetensors").write_bytes(with_header(change))
        info = phasescope("info", str(self.folder))
        self.assertEqual((info.returncode, info.stderr), (0, ""))
        self.assertRegex(info.stdout, rf"{name} +F8_E4M3 .*unsupported")
        self.assertIn("the model cannot be run", info.stdout)
        heads = phasescope("heads", str(self.folder))
        self.assertEqual((heads.returncode, heads.stdout, heads.stderr.count("\n")), (2, "", 1))
        self.assertIn(f"tensor {name} has the type F8_E4M3", heads.stderr)
        self.assertEqual(phasescope("cost", str(self.folder)).returncode, 0)

    def test_missing_tensors_are_listed_and_refused(self):
        shutil.copy(ROPE / "config.json", self.folder)
        names = [f"model.layers.{layer}.self_attn.{tensor}_proj.weight" for layer in (0, 1) for tensor in "qk"]

        def change(header):
            for number, name in enumerate(names):
                header[f"something.else.{number}"] = header.pop(name)

        (self.folder / "model.safetensors").write_bytes(with_header(change))
        info = phasescope("info", str(self.folder))
        self.assertEqual((info.returncode, info.stderr), (0, ""))
        report = json.loads(phasescope("info", str(self.folder), "--json").stdout)
        self.assertEqual(report["missing"], names)
        self.assertEqual(len(report["unexpected"]), 4)
        self.assertIn("the model cannot be run: 4 tensors are missing", "".join(report["warnings"]))
        for command in (["heads"], ["capture", "--out", "c.safetensors"],
                        ["convert", "--to", "safetensors", "--out", "out"]):
            done = phasescope(command[0], str(self.folder), *command[1:], folder=self.folder)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(f"4 tensors are missing from the file: {names[0]}, ", done.stderr)
        self.assertFalse((self.folder / "out").exists())


def read_recording(path):
    """{question: (result, {tensor: (dtype, shape, numbers)})} of what `view --record` wrote."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    answers = {}
    begin, end = (8 + size + offset for offset in header["answers"]["data_offsets"])
    for number, answer in enumerate(json.loads(zlib.decompress(data[begin:end]))):
        tensors = {}
        for name in answer["tensors"]:
            entry = header[f"{number}/{name}"]
            code = {"F32": "f", "F64": "d", "I32": "i", "I64": "q", "U8": "B"}[entry["dtype"]]
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            numbers = [value for (value,) in struct.iter_unpack("<" + code, data[begin:end])]
            tensors[name] = (entry["dtype"], entry["shape"], numbers)
        answers[answer["question"]] = (answer["result"], tensors)
    return answers


class Sessions(InAFolder):
    """17.A6: a picture is of the session that is named, or there is none; 17.A9: which stays as it is."""

    def test_one_that_cannot_be_read_is_no_picture(self):
        broken = self.folder / "broken.phasescope"
        broken.write_bytes(b"\xff{")
        folder = self.folder / "folder.phasescope"
        folder.mkdir()
        there = sorted(self.folder.iterdir())
        for session, said in ((broken, "broken.phasescope"), (folder, "this is a folder"),
                              (self.folder / "absent.phasescope", "absent.phasescope")):
            with self.subTest(session=session.name):
                done = phasescope("view", "--session", str(session), "--screenshot", "x.png", folder=self.folder)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, f"^phasescope: [^\n]*{re.escape(said)}[^\n]*\n$")
                self.assertEqual(sorted(self.folder.iterdir()), there)
        done = phasescope("view", str(folder), folder=self.folder)  # in a window neither
        self.assertEqual((done.returncode, sorted(self.folder.iterdir())), (2, there), done.stderr)


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class Recorded(InAFolder):
    """The bundled recording of the first session is what the worker answers today."""

    # Sums of float32 in another order through four layers, as other processors have them, relative to
    # the larger number, and what is left of a difference of two equal numbers of a score's size.
    RELATIVE, ABSOLUTE = 1e-3, 1e-4

    def near_counts(self, a, b, where):
        """A number at an edge between two bins is counted in the one or the other by its rounding."""
        self.assertEqual((len(a), sum(a)), (len(b), sum(b)), where)
        moved = sum(abs(one - other) for one, other in zip(a, b)) / 2
        self.assertLessEqual(moved, 1 + self.RELATIVE * sum(a), where)

    def near(self, a, b, where):
        if isinstance(a, list) and a and where.endswith(".counts"):
            self.near_counts(a, b, where)
        elif isinstance(a, dict):
            self.assertEqual(a.keys(), b.keys(), where)
            for key in a.keys() - {"provenance", "seconds"}:
                self.near(a[key], b[key], f"{where}.{key}")
        elif isinstance(a, list):
            self.assertEqual(len(a), len(b), where)
            for number, (one, other) in enumerate(zip(a, b)):
                self.near(one, other, f"{where}[{number}]")
        elif isinstance(a, str) and isinstance(b, str) and a != b:  # a sentence with numbers in it
            self.assertEqual(NUMBER.sub("#", a), NUMBER.sub("#", b), where)
            for one, other in zip(NUMBER.findall(a), NUMBER.findall(b)):
                self.near(float(one), float(other), where)
        elif isinstance(a, float) and isinstance(b, float):
            if a != b and not (a != a and b != b):
                self.assertLessEqual(abs(a - b), self.ABSOLUTE + self.RELATIVE * max(abs(a), abs(b)), where)
        else:
            self.assertEqual(a, b, where)

    def test_the_bundled_recording_is_fresh(self):
        again = self.folder / "again.safetensors"
        done = phasescope("view", "--record", str(again), "--quiet", seconds=900)
        self.assertEqual(done.returncode, 0, done.stderr)
        old, new = read_recording(SOURCE / "assets/first_session.safetensors"), read_recording(again)
        self.assertEqual(old.keys(), new.keys(), "./dev record makes it again")
        for question, (result, tensors) in old.items():
            self.near(result, new[question][0], question)
            self.near({name: list(parts) for name, parts in tensors.items()},
                      {name: list(parts) for name, parts in new[question][1].items()}, question)


if __name__ == "__main__":
    if not (PROGRAMS / "phasescope-worker").exists():
        print("skipped: phasescope-worker is not built")
        sys.exit(77)
    python_cases.run()
