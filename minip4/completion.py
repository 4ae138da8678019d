"""`minip4 completion`: prints a script that completes commands, options and file names in bash."""

import argparse
import importlib

SCRIPT = """\
_minip4() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} options=
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _minip4 minip4"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the completion script; use: source <(minip4 completion bash)"
    parser.add_argument("shell", choices=["bash"], help="shell")


def run(args: argparse.Namespace) -> int:
    del args  # bash is the only shell
    parsers = command_parsers()
    cases = []
    for name, parser in parsers.items():
        options = [option for action in parser._actions for option in action.option_strings]
        cases.append(f'        {name}) options="{" ".join(options)}" ;;')
    print(SCRIPT.format(cases="\n".join(cases), commands=" ".join(parsers)))
    return 0


def command_parsers() -> dict[str, argparse.ArgumentParser]:
    """Return a parser with the arguments of each command."""
    from minip4.cli import _COMMANDS  # noqa: PLC0415  minip4.cli imports this module

    parsers = {}
    for name, (module, summary) in _COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"minip4 {name}", description=summary, add_help=False)
        importlib.import_module(module).add_arguments(parser)
        parsers[name] = parser
    return parsers
