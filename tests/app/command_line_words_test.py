"""What the command line takes that is no plain text: names and texts of any bytes, and what shells complete and man
shows of its words."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from unittest import mock

from command_line_test import PROGRAMS, SOURCE, InAFolder, phasescope, shell, verbs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_cases  # noqa: E402


class Bytes(InAFolder):
    def test_row38_a_model_of_bytes_reads_any_bytes(self):  # 17.A9
        # The bundled tokenizer: [BOS] is 0, every byte is its own id.
        done = phasescope("tokenize", "rope", "--prompt", b"caf\xe9 \xff")
        self.assertEqual(json.loads(done.stdout), [0, *b"caf\xe9 \xff"])
        (self.folder / "latin1.txt").write_bytes(b"caf\xe9" * 8)
        read = phasescope("heads", "rope", "--text", "latin1.txt", "--out", "h.json", folder=self.folder)
        self.assertEqual(read.returncode, 0, read.stderr)
        self.assertEqual(phasescope("generate", "rope", "--prompt", b"\xff", "--tokens", "2").returncode, 0)

    def test_row38_the_command_of_any_bytes_runs_again(self):  # 17.A9, 17.A10
        done = json.loads(phasescope("heads", "rope", "--prompt", b"\xff'ab\\", "--json").stdout)
        again = json.loads(shell(done["provenance"]["command"] + " --json", self.folder).stdout)
        self.assertEqual(again["rows"], done["rows"])

    def test_row38_names_of_bytes_are_read_written_and_shown(self):
        """Texts and ids are read, results written, by the very bytes; a terminal and a log get escapes."""
        text, out = b"t\xe9xt \xff.txt", b"o\xe9.json"
        folder = os.fsencode(self.folder)
        Path(os.fsdecode(folder + b"/" + text)).write_text("to be or not to be " * 4)
        done = phasescope("text", "rope", "--text", text, "--out", out, "--json", folder=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, "wrote o\\xe9.json\n"))
        self.assertIn(out, os.listdir(folder))
        first = json.loads(done.stdout)
        written = json.loads((self.folder / os.fsdecode(out)).read_text(encoding="utf-8"))
        for command in (first["provenance"]["command"], written["made_by"]["command"]):
            again = shell(command.replace("--json", "") + " --json", self.folder)
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(json.loads(again.stdout)["tokens"], first["tokens"], command)
        Path(os.fsdecode(folder + b"/i\xe9.json")).write_text("[1, 2, 3]")
        done = phasescope("tokenize", "rope", "--ids", b"i\xe9.json", folder=self.folder)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "[1,2,3]\n", ""))

    def test_row38_names_of_bytes_that_the_worker_would_mistake_are_refused(self):
        """A request is JSON, which holds no other bytes: another file would be read, another folder written."""
        before = sorted(os.listdir(os.fsencode(self.folder)))
        for words in (["info", b"m\xe9"],
                      ["capture", "rope", "--inputs", b"\xe9.safetensors", "--out", "c.safetensors"],
                      ["check", "rope", "--reference", b"\xe9.safetensors"], ["heads", "rope", "--corpus", b"\xe9"],
                      ["convert", "rope", "--to", "ape", "--out", b"\xe9"], ["import", b"a\xe9.npy", "--out", "i"],
                      ["prove", "proof-sink", "--make", b"\xe9"], ["jobs", "show", b"\xe9/"], ["view", b"m\xe9"],
                      ["eval", "perplexity", "rope", "--lengths", "32", "--job", b"\xe9"]):
            with self.subTest(words=words):
                done = phasescope(*words, folder=self.folder)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("the worker is asked in UTF-8, and this name is not", done.stderr)
                self.assertIn("\\xe9", done.stderr)
        self.assertEqual(sorted(os.listdir(os.fsencode(self.folder))), before)

    def test_row38_a_model_of_characters_names_the_first_byte_it_cannot_read(self):
        tokenizer = SOURCE / "tests/data/hf/tokenizers/gpt2_bytelevel"
        done = phasescope("tokenize", str(tokenizer), "--prompt", b"caf\xe9")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("not UTF-8 (byte 3 of the text)", done.stderr)


class Shells(InAFolder):
    """What shells complete and man shows follows from what the verbs declare."""

    def completed(self, *words):
        line = " ".join(f"'{word}'" for word in words)
        done = shell(f"source <(phasescope --completion bash)\nCOMP_WORDS=({line})\n"
                     f"COMP_CWORD={len(words) - 1}\n_phasescope\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_bash_completes_verbs_options_models_and_files(self):
        self.assertEqual(self.completed("phasescope", "patt"), ["patterns"])
        self.assertEqual(self.completed("phasescope", "map", "--hea"), ["--head"])
        for name in ("tapestry.json", "tapes of mine"):
            (self.folder / name).touch()
        self.assertEqual(sorted(self.completed("phasescope", "map", "tape")), ["tape", "tapes of mine", "tapestry.json"])
        self.assertEqual(self.completed("phasescope", "map", "no-such"), [""])

    def test_models_alone_are_completed_as_the_windows(self):
        self.assertEqual(self.completed("phasescope", "rope", "--scr"), ["--screenshot"])
        self.assertEqual(self.completed("phasescope", "rope", "tapa", "--theme", "l"), ["light"])

    def test_what_stands_in_place_of_a_verb_is_completed_and_on_the_page_of_man(self):
        words = ["--completion", "--help", "--man", "--version"]
        self.assertEqual(sorted(self.completed("phasescope", "--")), words)
        self.assertEqual(self.completed("phasescope", "--completion", ""), ["bash", "zsh", "fish"])
        options = phasescope("--man").stdout.replace("\\-", "-").split(".SH VERBS")[0]
        self.assertEqual([word for word in words if word not in options.split(".SH OPTIONS")[1]], [])
        fish = phasescope("--completion", "fish").stdout
        self.assertEqual([word for word in words if f"-n __fish_use_subcommand -l {word[2:]} " not in fish], [])

    def test_values_are_completed_from_what_is_declared(self):
        self.assertEqual(self.completed("phasescope", "map", "--of", "co"), ["content"])
        self.assertEqual(self.completed("phasescope", "eval", "perp"), ["perplexity"])
        self.assertEqual(self.completed("phasescope", "map", "--of", "=", "po"), ["positional"])
        self.assertEqual(self.completed("phasescope", "map", "--pool", "=", ""), ["mean", "max"])
        self.assertEqual(self.completed("phasescope", "shift", "rope", "--method", "ids,to"), ["ids,tokens"])
        self.assertEqual(self.completed("phasescope", "view", "rope", "--theme", "d"), ["dark"])
        self.assertEqual(self.completed("phasescope", "text", "rope", "--sample", "missing_d"), ["missing_duplicate"])
        self.assertIn("missing_duplicate", self.completed("phasescope", "eval", "missing_d"))
        self.assertEqual(self.completed("phasescope", "theory", "tape", "--check", "tape.sh"), ["tape.shift"])

    def test_jobs_are_completed_by_their_names(self):
        job = self.folder / "data/phasescope/jobs/harvest-7"
        job.mkdir(parents=True)
        (job / "config.json").write_text("{}")
        (job / "status.json").write_text('{"name": "harvest-7", "state": "done"}')
        with mock.patch.dict(os.environ, XDG_DATA_HOME=str(self.folder / "data")):
            self.assertIn("harvest-7", self.completed("phasescope", "jobs", "show", "harv"))

    def test_what_is_completed_is_taken(self):
        """Every value that fish is told of for `map --of`, and no other."""
        page = phasescope("--completion", "fish").stdout
        line = next(line for line in page.splitlines() if "seen_subcommand_from map'" in line and " -l of " in line)
        values = re.search(r"-x -a '([^']*)'", line).group(1).split()
        refused = phasescope("map", "rope", "--of", "nothing").stderr
        self.assertGreater(len(values), 2)
        self.assertEqual([value for value in values if value not in refused], [])

    def test_every_option_is_in_every_page(self):
        help_of_map = set(re.findall(r"--[a-z-]+", phasescope("map", "--help").stdout.split("Example")[0]))
        self.assertGreater(len(help_of_map), 10)
        for words in (["--completion", "fish"], ["--completion", "zsh"], ["--man"]):
            page = phasescope(*words).stdout.replace("\\-", "-")
            if "fish" in words:
                page = page.replace(" -l ", " --")
            self.assertEqual({option for option in help_of_map if option not in page}, set(), words)
        self.assertEqual(set(verbs()), set(re.findall(r"(?m)^\.SS (.*)$", phasescope("--man").stdout)))

    def test_man_finds_nothing_wrong_with_the_page(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        done = shell("phasescope --man | groff -man -ww -Tutf8 > page", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_an_unknown_shell_is_refused(self):
        self.assertIn("--man stands alone", phasescope("--man", "map").stderr)
        done = phasescope("--completion", "tcsh")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bash, zsh or fish", done.stderr)


if __name__ == "__main__":
    if not (PROGRAMS / "phasescope-worker").exists():
        print("skipped: phasescope-worker is not built")
        sys.exit(77)
    python_cases.run()
