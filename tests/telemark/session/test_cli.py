"""The common command line: usage errors give one line and status 2."""

import argparse

import pytest
from loaded import StartExperiment

from telemark.results.report import Report
from telemark.session import cli


def never(_options: argparse.Namespace, _run: object) -> Report:
    raise AssertionError("a mistake in the arguments must be found before the experiment runs")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--loss", type=cli.percentage)
    parser.add_argument("--probability", type=cli.probability)
    parser.add_argument("--count", type=cli.positive_int)
    parser.add_argument("--rate", type=cli.positive_float)
    parser.add_argument("--lasting", type=cli.seconds)
    parser.add_argument("--block-us", type=cli.power_of_two)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--loss", "150"], "'150' is not a percentage from 0 to 100"),
        (["--loss", "nan"], "'nan' is not a percentage"),
        (["--loss=-1"], "'-1' is not a percentage"),
        (["--loss", "x"], "'x' is not a percentage"),
        (["--probability", "1.1"], "a probability from 0 to 1"),
        (["--count", "0"], "a whole number from 1"),
        (["--count", "1.5"], "a whole number from 1"),
        (["--count", "9" * 30], "a whole number from 1"),
        (["--rate", "0"], "a number above 0"),
        (["--rate", "inf"], "a number above 0"),
        (["--lasting", "0"], "a time above 0 s, up to 1,000,000 s"),
        (["--lasting", "1e9"], "a time above 0 s, up to 1,000,000 s"),
        (["--block-us", "1000"], "the nearest are 512 and 1024"),
        (["--seed", "-1"], "a whole number from 0"),
        (["--out", ""], "'' is not a folder name"),
        (["--colour"], "unrecognized arguments: --colour"),
        (["--lo", "5"], "unrecognized arguments: --lo"),
        (["--target", "tofino"], "invalid choice: 'tofino'"),
        (["--target", "bmv2"], "--target bmv2: simple_switch_grpc is not on PATH"),
        (["--target", "bmv2", "--time", "virtual"], "--target bmv2: not available in virtual time"),
        (["--time", "virtual", "--interactive"], "--interactive: needs --time real"),
        (["--threads", "0"], "a whole number from 1"),
        (["--threads", "2"], "--threads: no effect in real time, where switches use"),
        (["--threads", "65", "--time", "virtual"], "--threads 65: expected at most 64"),
        (["--jobs", "0"], "'0' is not a whole number from 1 to 1024"),
        (["--jobs", "2"], "--jobs 2: parallel runs in real time would"),
    ],
)
def test_a_mistake_gets_one_line(
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["example.py", *arguments])
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(cli, "restart_without_gathers", lambda: None)  # would need a C compiler
    with pytest.raises(SystemExit) as ended:
        cli.main("experiments/example.py", "An example.", never, add_options)
    assert ended.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith("example: error: ")
    assert words in errors
    assert errors.count("\n") == 1


def test_help_tells_every_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["example.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        cli.main("experiments/example.py", "An example.\n\nOf two paragraphs.", never, add_options)
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "An example.\n\nOf two paragraphs.\n" in text
    for option in ("--target", "--time", "--quick", "--seed", "--out", "--interactive", "--loss"):
        assert f" {option}" in text


def test_without_root_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["example.py"])
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SystemExit) as ended:
        cli.main("experiments/example.py", None, never)
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "example: error: network namespaces need root: run it with sudo\n"
    )


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("1048576", 2**20)])
def test_powers_of_two(text: str, value: int) -> None:
    assert cli.power_of_two(text) == value


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("0.1", 0.1), ("100", 100.0)])
def test_percentages(text: str, value: float) -> None:
    assert cli.percentage(text) == value


def test_an_experiment_may_open_as_many_files_as_the_machine_lets_it(
    start_experiment: StartExperiment,
) -> None:
    """An experiment raises its limit of open files to the machine's maximum.

    The default limit of 1,024 is too low for the captures of a thousand switches.
    """
    head = "import resource\nmost = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
    head += "resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))"
    body = "now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]\n"
    body += "return Report(samples=[{'files': now}], checks=[Check('files', now, most)])"
    started = start_experiment(body, "--time", "virtual", head=head)
    output, errors = started.communicate()
    assert started.returncode == 0, output + errors
