"""The command line as a whole: what help teaches, exit codes, Ctrl-C, silence where nobody looks."""

import signal

import pytest

from program import ROOT, Started
from program import lacuna as run

SUBCOMMANDS = ["generate screen", "import screen", "info", "subset", "concat", "split", "features", "bench loader", "report"]


def test_help_teaches_the_five_words_in_a_screenful():
    text = run("--help").stdout
    for word in ["screen", "recording", "store", "rung", "run"]:
        assert f"\n  {word} " in text, word
    assert len(text.splitlines()) <= 48


@pytest.mark.parametrize("words", SUBCOMMANDS)
def test_every_help_has_an_example(words):
    text = run(*words.split(), "--help").stdout
    assert "example" in text.lower() and "lacuna " + words.split()[0] in text


@pytest.mark.parametrize("words, culprit", [
    (["frobnicate"], "frobnicate"),
    (["info"], "path"),
    (["info", "x", "--no-such-option"], "--no-such-option"),
    (["generate", "screen", "x", "--size", "enormous"], "enormous"),
])
def test_a_wrong_call_is_one_line_and_exit_2(words, culprit):
    result = run(*words)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert culprit.lower() in result.stderr.lower()
    assert result.stdout == ""


WORKFLOW = ["import", "split", "plan", "train", "evaluate", "compare", "predict", "report"]


@pytest.mark.parametrize("words", [[], ["help"]])
def test_without_a_command_the_workflow_is_shown_in_order(words):
    result = run(*words)
    assert result.returncode == 0 and result.stderr == ""
    places = [result.stdout.index(f"  lacuna {command} ") for command in WORKFLOW]
    assert places == sorted(places) and len(result.stdout.splitlines()) <= 24


def test_help_of_a_command():
    for words in (["split"], ["import", "screen"]):
        assert run("help", *words).stdout == run(*words, "--help").stdout != ""


@pytest.mark.parametrize("words, meant", [
    (["trian"], "train"), (["imprt", "screen"], "import"), (["Predict", "run"], "predict"), (["import", "scren"], "screen"),
    (["bench", "lader"], "ladder"), (["help", "reprot"], "report"), (["info", "x", "--jso"], "--json"),
    (["split", "x", "--name", "y", "--colum=z"], "--column"), (["qqqqqqq"], None),
])  # fmt: skip
def test_a_near_miss_is_suggested(words, meant):
    result = run(*words)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert "did you mean" not in result.stderr if meant is None else f" (did you mean '{meant}'?)" in result.stderr


def test_the_first_steps_of_help_are_those_of_the_demo():
    """They end as well as it does: the same screen, split and config."""
    steps = run("--help").stdout.replace("\\\n", " ")
    demo = (ROOT / "scripts/demo").read_text().replace("\\\n", " ").replace("$out/mini", "demo").replace("$out/", "")
    for command in ("generate screen demo", "split demo", "train configs/demo.yaml"):
        line = next(line for line in steps.splitlines() if f"lacuna {command}" in line)
        assert " ".join(line.split()) in " ".join(demo.split()), line


@pytest.mark.parametrize("words, help", [
    (["generate", "screen", "x", "--no-such"], "lacuna generate screen --help"),
    (["import", "screen", "x", "--no-such"], "lacuna import screen --help"),
    (["bench", "ladder", "x", "--no-such"], "lacuna bench ladder --help"),
    (["bench"], "lacuna bench --help"),
    (["info", "x", "--no-such"], "lacuna info --help"),
    (["frobnicate"], "lacuna --help"),
])
def test_a_wrong_call_points_to_the_help_that_has_the_options(words, help):
    assert f"see `{help}`" in run(*words).stderr


@pytest.mark.parametrize("words", [
    ["generate", "screen", "x", "--samples", "-5"],
    ["generate", "screen", "x", "--samples", "0"],
    ["generate", "screen", "x", "--removed", "-1"],
    ["generate", "screen", "x", "--query-pairs", "-1"],
    ["bench", "prepare", "x", "--samples", "0"],
    ["bench", "prepare", "x", "--samples", "-5"],
])
def test_a_number_out_of_range_is_named_as_it_was_written(words, tmp_path):
    result = run(*words, cwd=tmp_path)
    assert result.returncode == 2 and f"{words[-2]}: Value {words[-1]} not in range" in result.stderr
    assert len(result.stderr) < 150 and not any(tmp_path.iterdir())


def test_help_of_concat_says_two_or_more():
    assert "OUT SCREENS..." in run("concat", "--help").stdout


def test_a_failure_is_one_line_and_exit_1(tmp_path):
    result = run("info", str(tmp_path / "nothing"))
    assert result.returncode == 1
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert "nothing" in result.stderr


def test_a_message_shows_what_a_name_hides_and_shortens_what_is_endless(tmp_path):
    said = run("info", "a\x1b[2J\nb\x9b").stderr
    assert "a\\x1b[2J\\nb" in said and "\x1b" not in said and said.count("\n") == 1
    said = run("info", "begin/" + "x" * 100_000 + "/end").stderr
    assert len(said) < 3000 and "begin/xxx" in said and "xxx/end" in said and "bytes in all" in said


def test_ctrl_c_stops_and_leaves_nothing_that_reads_as_a_screen(tmp_path):
    out = tmp_path / "screen"
    generating = Started("generate", "screen", out, "--size", "yeast", "--samples", 20000000, is_nice=False,
                         # a test that was itself started in the background inherits a Ctrl-C that does nothing
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
    assert generating.wait_for(lambda: any(path.is_file() for path in out.rglob("*")))
    assert generating.end(signal.SIGINT) == -signal.SIGINT
    assert run("info", out).returncode == 1


def test_no_progress_where_nobody_looks(tmp_path):
    result = run("generate", "screen", str(tmp_path / "screen"), "--size", "tiny", "--samples", "100")
    assert result.returncode == 0 and result.stderr == ""
