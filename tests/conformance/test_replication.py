"""`python -m benches.replication`: programs, sources and times are named for what is there."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import re
from pathlib import Path

import pytest

command = importlib.import_module("benches.replication.__main__")
HERE = Path(command.__file__).parent
READ = re.compile(r"`?(\w+\.(?:csv|jsonl)\.gz|\w+\.npz)`?")


def test_list_names_every_program_of_a_paper(capsys):
    assert command.main(["--list"]) == 0
    shown = capsys.readouterr().out
    for name in command.PROGRAMS:
        assert f"{name}: " in shown
        assert "def main(" in (HERE / f"{name}.py").read_text(encoding="utf-8")
    assert all(program.quick > 0 for program in command.PROGRAMS.values())


def test_every_file_that_a_program_names_has_a_source():
    known = {entry["file"] for entry in command.sources()}
    for name in command.PROGRAMS:
        text = (HERE / f"{name}.py").read_text(encoding="utf-8")
        named = set(READ.findall(text)) - {"NAME.csv.gz", "name.csv.gz"}
        assert named <= set(command.files_of(name)) <= known


def test_every_source_has_urls_and_a_checksum():
    for entry in command.sources():
        assert entry["urls"]
        assert all(re.fullmatch(r"https?://\S+", url) for url in entry["urls"])
        assert re.fullmatch("[0-9a-f]{64}", entry["sha256"])
        assert set(entry["programs"]) <= {*command.PROGRAMS, "ibp"}


def test_check_tells_files_apart(tmp_path, monkeypatch, capsys):
    content = b"a,class\n1,x\n"
    source = {"programs": ["craft"], "urls": ["https://example.org/a"], "sha256": ""}
    good, bad, absent = (dict(source, file=f"{name}.csv.gz") for name in ("good", "bad", "absent"))
    good["sha256"] = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(command, "sources", lambda: [good, bad, absent])
    for level, name in enumerate(("good", "bad"), start=1):  # of whatever compression
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(content, level))
    assert command.main(["--check", "--data", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "good.csv.gz: as measured"
    assert lines[1].startswith("bad.csv.gz: differs")
    assert lines[2] == "absent.csv.gz: missing; see https://example.org/a"
    monkeypatch.setattr(command, "sources", lambda: [good])
    assert command.main(["--check", "--data", str(tmp_path)]) == 0


def test_all_runs_every_program_and_names_failures(tmp_path, monkeypatch, capfd):
    """Programs that print their arguments; one fails."""
    for name, code in (("first", 0), ("second", 3)):
        text = f"import sys\nprint('{name}', *sys.argv[1:])\nsys.exit({code})\n"
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    programs = {name: command.Program("paper", "tables", 1, "--plots") for name in ("first", "second")}
    monkeypatch.setattr(command, "PROGRAMS", programs)
    monkeypatch.setattr(command, "HERE", tmp_path)
    out = tmp_path / "results"
    assert command.main(["--all", "--quick", "--out", str(out)]) == 1
    shown = capfd.readouterr().out
    assert f"first --quick --out {out / 'first.md'} --plots {out / 'first'}" in shown
    times = (out / "times.md").read_text(encoding="utf-8")
    assert re.search(r"\| first \| paper \| \d+ \| \d+ \|  \|", times)
    assert "exit code 3" in times
    assert command.main(["first"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"), [([], "--all or --list"), (["nothing"], "unknown program 'nothing'")]
)
def test_bad_arguments(arguments, message, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert message in capsys.readouterr().err


def test_check_needs_a_folder(monkeypatch, capsys):
    monkeypatch.delenv("CRAFTC_DATA", raising=False)
    with pytest.raises(SystemExit):
        command.main(["--check"])
    assert "--data DIR" in capsys.readouterr().err
