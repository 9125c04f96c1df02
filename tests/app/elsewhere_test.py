"""Trainings that run elsewhere than in one process on this machine: as several ranks, behind a real sshd
on loopback, as an array of a Slurm of one node. A server that is not installed is named, and its part
skipped."""

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402

SOURCE = Path(os.environ.get("PHASESCOPE_SOURCE", Path(__file__).resolve().parents[2]))
PROGRAMS = Path(os.environ.get("PHASESCOPE_BUILD", SOURCE / "build/release")) / "bin"
SERVERS = "/usr/sbin:/usr/local/sbin:/sbin:" + os.environ["PATH"]


def server(name, package):
    """Its path; where it is not installed, the test is skipped with what is missing."""
    found = shutil.which(name, path=SERVERS)
    if not found:
        raise unittest.SkipTest(f"{name} is not installed (Debian's {package}); CI and ./dev test --long "
                                f"install it, or: apt-get install {package}")
    return found


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, holds, seconds=60):
    end = time.monotonic() + seconds
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.05)
    return found


def answers(port):
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


class Elsewhere(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="phasescope-elsewhere-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
                            "XDG_DATA_HOME": str(self.folder / "data"), "OMP_WAIT_POLICY": "passive"}
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            self.environment.pop(name, None)

    def start(self, words, environment=None, **more):
        """A process that ends with the test."""
        child = subprocess.Popen([str(word) for word in words], env=environment or self.environment,
                                 cwd=self.folder, stdin=subprocess.DEVNULL, **more)
        self.addCleanup(self.end, child)
        return child

    @staticmethod
    def end(child):
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe:
                pipe.close()

    def phasescope(self, *words, seconds=240):
        done = subprocess.run([PROGRAMS / "phasescope", *map(str, words)], env=self.environment,
                              cwd=self.folder, capture_output=True, text=True, errors="replace",
                              timeout=seconds, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def small_run(self, steps):
        """A configuration that makes a step in milliseconds, and its text."""
        text = self.folder / "text.txt"
        text.write_text("".join(f"the {n * 7919 % 1000} men of house {n % 37}. " for n in range(900)))
        return {"model": {"context": 32, "layers": 2, "width": 32, "heads": 2, "kv_heads": 2,
                          "ffn_width": 64},
                "encoding": {"key": "rope"}, "data": {"corpus": str(text), "validation": str(text)},
                "train": {"steps": steps, "batch_tokens": 128, "checkpoint_every": 10, "warmup_steps": 5},
                "eval": {"every": 0, "windows": 4}}

    def written(self, name, value):
        path = self.folder / name
        path.write_text(json.dumps(value))
        return path


def lines_of(job):
    path = job / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines(True) if line.endswith("\n")] \
        if path.exists() else []


def state_of(job):
    return json.loads((job / "status.json").read_text())["state"]


class Ranks(Elsewhere):
    def setUp(self):
        if os.environ.get("PHASESCOPE_HAS_GLOO", "").endswith("NOTFOUND"):
            raise unittest.SkipTest("built without Gloo's headers (Debian's libgloo-dev)")
        super().setUp()

    def start_ranks(self, config, job):
        port = free_port()
        return [self.start([PROGRAMS / "phasescope", "train", config, "--job", job, *(["--resume"] if
                            (job / "config.json").exists() else [])],
                           {**self.environment, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in (0, 1)]

    def test_two_make_the_losses_of_one(self):
        config = self.written("run.json", self.small_run(20))
        job, alone = self.folder / "ranks", self.folder / "alone"
        for rank in self.start_ranks(config, job):
            _, said = rank.communicate(timeout=240)
            self.assertEqual(rank.returncode, 0, said)
        self.assertEqual(state_of(job), "done")
        self.assertIn("begins at step 0", (job / "log.txt").read_text())
        self.phasescope("train", config, "--job", alone, "--set", "train.accumulate=2")
        self.assertEqual([line["loss"] for line in lines_of(job)], [line["loss"] for line in lines_of(alone)])

    def test_one_that_is_killed_ends_the_other_and_the_job_goes_on(self):
        config = self.written("run.json", self.small_run(400))
        job = self.folder / "ranks"
        ranks = self.start_ranks(config, job)
        wait_for("the first steps", lambda: len(lines_of(job)) > 3)
        ranks[1].kill()
        _, said = ranks[0].communicate(timeout=60)
        self.assertEqual(ranks[0].returncode, 4, said)
        self.assertIn("has lost another one", said)
        done = len(lines_of(job))
        self.assertLess(done, 400)
        for rank in self.start_ranks(config, job):
            _, said = rank.communicate(timeout=240)
            self.assertEqual(rank.returncode, 0, said)
        self.assertEqual([line["step"] for line in lines_of(job)], list(range(1, 401)))

    def test_the_pages_commands_by_hand_run(self):
        """Those of docs/training.md, two steps of them."""
        os.symlink(SOURCE / "sample_configs", self.folder / "sample_configs")
        page = (SOURCE / "docs/training.md").read_text(encoding="utf-8")
        block = page[page.index("    export WORLD_SIZE="):]
        command = block[:block.index("\n\n")]
        self.assertEqual(command.count("train.steps=20"), 2)
        command = command.replace("train.steps=20", "train.steps=2 --set eval.windows=2")
        command = command.replace("MASTER_PORT=29500", f"MASTER_PORT={free_port()}")
        shell = self.start(["bash", "-ec", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _, said = shell.communicate(timeout=240)
        self.assertEqual(shell.returncode, 0, said)
        job = self.folder / "out/two"
        self.assertEqual((state_of(job), len(lines_of(job))), ("done", 2), said)

    def test_what_a_launcher_leaves_out_is_said(self):
        config = self.written("run.json", self.small_run(5))
        for more, missing in (({}, "--job"), ({"job": 1}, "MASTER_ADDR")):
            words = ["--job", self.folder / "j"] if more else []
            done = self.start([PROGRAMS / "phasescope", "train", config, *words],
                              {**self.environment, "RANK": "1", "WORLD_SIZE": "2"},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            _, said = done.communicate(timeout=60)
            self.assertEqual(done.returncode, 2, said)
            self.assertIn(missing, said)


def children_of(parent):
    """Ids of the processes below one, the nearest first."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(words[1]) == parent:
            found.append(int(stat.parent.name))
    return found + [below for one in found for below in children_of(one)]


def program_of(process):
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


class Sshd(Elsewhere):
    def setUp(self):
        self.sshd = server("sshd", "openssh-server")
        server("ssh-keygen", "openssh-client")
        super().setUp()
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key],
                           check=True)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd does not start without it
        self.port = free_port()
        (self.folder / "sshd_config").write_text("\n".join([
            f"Port {self.port}", "ListenAddress 127.0.0.1", f"HostKey {self.folder}/host_key",
            f"AuthorizedKeysFile {self.folder}/user_key.pub", "StrictModes no", "UsePAM no", "PidFile none",
            "PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
            f"SetEnv PATH={PROGRAMS}:/usr/bin:/bin XDG_DATA_HOME={self.folder}/far", ""]))
        (self.folder / "ssh_config").write_text("\n".join([
            "Host far", "  HostName 127.0.0.1", f"  Port {self.port}", f"  User {getpass.getuser()}",
            f"  IdentityFile {self.folder}/user_key", "  IdentitiesOnly yes", "  IdentityAgent none",
            f"  UserKnownHostsFile {self.folder}/known_hosts", "  StrictHostKeyChecking accept-new",
            "  LogLevel ERROR", ""]))
        ssh = self.folder / "programs/ssh"
        ssh.parent.mkdir()
        ssh.write_text(f"#!/bin/sh\nexec {shutil.which('ssh')} -F {self.folder}/ssh_config \"$@\"\n")
        ssh.chmod(0o700)
        self.environment["PATH"] = f"{ssh.parent}:{self.environment['PATH']}"
        self.log = (self.folder / "sshd.log").open("w")
        self.addCleanup(self.log.close)
        self.listener = self.start([self.sshd, "-D", "-e", "-f", self.folder / "sshd_config"],
                                   stderr=self.log)
        wait_for("sshd", lambda: self.listener.poll() is not None or answers(self.port), 20)
        self.assertIsNone(self.listener.poll(), (self.folder / "sshd.log").read_text())

    def cut(self):
        """Kills the connections, not what was started through them."""
        sessions = [child for child in children_of(self.listener.pid)
                    if program_of(child).startswith("sshd")]
        self.assertTrue(sessions)
        for session in sessions:
            os.kill(session, signal.SIGKILL)

    def test_models_there_are_looked_at_as_those_here(self):
        far = json.loads(self.phasescope("info", "rope", "--remote", "far", "--json"))
        self.assertEqual(far["hash"], json.loads(self.phasescope("info", "rope", "--json"))["hash"])
        words = ["heads", "rope", "--prompt", "In the beginning God created the heaven and the earth.",
                 "--metrics", "entropy,sink", "--json"]
        rows = json.loads(self.phasescope(*words, "--remote", "far"))["rows"]
        self.assertEqual(rows, json.loads(self.phasescope(*words))["rows"])

    def test_row29_a_training_goes_on_when_the_link_is_cut_and_is_found_again(self):
        config, job = self.written("run.json", self.small_run(1_000_000)), self.folder / "jobs/there"
        follower = self.start([PROGRAMS / "phasescope", "train", config, "--job", job, "--remote", "far"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.cancel, job)
        wait_for("steps of the training", lambda: len(lines_of(job)) > 10)
        self.cut()
        _, said = follower.communicate(timeout=60)
        self.assertNotEqual(follower.returncode, 0)
        self.assertIn("phasescope: ", said)
        done = len(lines_of(job))
        wait_for("steps without the link", lambda: len(lines_of(job)) > done + 20)
        jobs = json.loads(self.phasescope("jobs", "list", "--remote", "far", "--json"))["jobs"]
        self.assertEqual([(one["dir"], one["state"]) for one in jobs], [(str(job), "running")])
        self.phasescope("jobs", "cancel", "there", "--remote", "far")
        wait_for("the end of the job", lambda: state_of(job) == "cancelled")
        # What it has saved opens from here.
        step = len(lines_of(job))
        self.assertTrue((job / f"checkpoints/step-{step}/manifest.json").exists())
        info = json.loads(self.phasescope("info", job, "--remote", "far", "--json"))
        self.assertEqual(info["hash"], json.loads(self.phasescope("info", job, "--json"))["hash"])

    def cancel(self, job):
        """A job outlives what started it, and the test must not."""
        if (job / "status.json").exists() and state_of(job) in ("running", "queued", "paused"):
            (job / "control.json").write_text('{"request": "cancel"}')
            wait_for("the end of the job", lambda: state_of(job) not in ("running", "queued", "paused"))


class Slurm(Elsewhere):
    """A controller, a node and munge of its own, on loopback and free ports, below /run."""

    def setUp(self):
        programs = {name: server(name, package) for name, package in
                    (("munged", "munge"), ("mungekey", "munge"), ("slurmctld", "slurm-wlm"),
                     ("slurmd", "slurm-wlm"), ("sbatch", "slurm-wlm"), ("squeue", "slurm-wlm"))}
        if os.geteuid() != 0:
            raise unittest.SkipTest("Slurm's daemons run jobs as other users, and need root for it")
        super().setUp()
        place = Path(tempfile.mkdtemp(prefix="phasescope-slurm-", dir="/run"))
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        place.chmod(0o755)
        munge = place / "munge"
        munge.mkdir(mode=0o755)
        subprocess.run([programs["mungekey"], "--create", f"--keyfile={munge}/key"], check=True)
        for path in (munge, munge / "key"):
            shutil.chown(path, "munge", "munge")
        self.log = (place / "log.txt").open("w")
        self.addCleanup(self.log.close)
        self.start([programs["munged"], "--foreground", f"--key-file={munge}/key", f"--socket={munge}/socket",
                    f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed"],
                   user="munge", group="munge", extra_groups=[], stdout=self.log, stderr=self.log)
        wait_for("munged", lambda: (munge / "socket").exists(), 20)
        self.environment["SLURM_CONF"] = str(self.written_config(place, munge))
        daemons = [self.start([programs[name], "-D"], stdout=self.log, stderr=self.log)
                   for name in ("slurmctld", "slurmd")]

        def idle():
            said = subprocess.run(["sinfo", "--noheader", "--format=%T"], env=self.environment, text=True,
                                  capture_output=True).stdout.strip()
            return said == "idle" or any(daemon.poll() is not None for daemon in daemons)
        wait_for("an idle node", idle, 60)
        for daemon in daemons:
            self.assertIsNone(daemon.poll(), (place / "log.txt").read_text())

    @staticmethod
    def written_config(place, munge):
        host = socket.gethostname().split(".")[0]
        for folder in ("state", "spool"):
            (place / folder).mkdir()
        config = place / "slurm.conf"
        config.write_text("\n".join([
            "ClusterName=phasescope", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={free_port()}",
            f"SlurmdPort={free_port()}", "AuthType=auth/munge", f"AuthInfo=socket={munge}/socket",
            "CredType=cred/munge", "SlurmUser=root", "SlurmdUser=root", f"StateSaveLocation={place}/state",
            f"SlurmdSpoolDir={place}/spool", f"SlurmctldPidFile={place}/slurmctld.pid",
            f"SlurmdPidFile={place}/slurmd.pid", f"SlurmctldLogFile={place}/slurmctld.log",
            f"SlurmdLogFile={place}/slurmd.log", "ProctrackType=proctrack/pgid", "TaskPlugin=task/none",
            "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
            "MpiDefault=none", "ReturnToService=2",
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN",
            f"PartitionName=all Nodes={host} Default=YES State=UP", ""]))
        return config

    def test_a_sweep_of_four_evals_runs_as_an_array(self):
        base = self.small_run(5)
        self.written("base.json", base)
        sweep = self.written("sweep.json", {
            "base": "base.json", "grid": {"encoding": ["rope", "alibi"], "train.seed": [1, 2]}, "jobs": 2,
            "eval": {"task": "perplexity", "lengths": [16, 32], "corpus": base["data"]["corpus"]}})
        place = self.folder / "sweep"
        table = json.loads(self.phasescope("sweep", sweep, "--job", place, "--slurm", "--json", seconds=480))
        logs = "".join(log.read_text() for log in (place / "slurm").glob("*.log"))
        self.assertEqual([cell["state"] for cell in table["cells"]], ["done"] * 4, logs)
        self.assertEqual([cell["evaluated"] for cell in table["cells"]], ["done"] * 4, logs)
        results = sorted(place.glob("*/eval/result.json"))
        self.assertEqual(len(results), 4)
        for result in results:
            rows = json.loads(result.read_text())["rows"]
            self.assertEqual([row["length"] for row in rows], [16, 32])
        said = subprocess.run(["squeue", "--noheader"], env=self.environment, text=True, capture_output=True)
        self.assertEqual((said.returncode, said.stdout.strip()), (0, ""), said.stderr)
        # Nothing is left: the same command submits nothing.
        array = (place / "slurm/array.json").read_text()
        self.phasescope("sweep", sweep, "--job", place, "--slurm", "--json")
        self.assertEqual((place / "slurm/array.json").read_text(), array)


if __name__ == "__main__":
    python_cases.run(verbosity=2)
