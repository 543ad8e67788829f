"""``generate completion``, made from the parser of the command line, ``options.whole()``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import exporter

PROGRAM = "kafka-eos-exporter"
_BASH = """\
# bash completion of {program} {version}: source it, or put it into /etc/bash_completion.d
_{function}() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path="" each choices=""
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path $each" in
{commands}
        esac
    done
    case "$path:$before" in
{values}
    esac
    if [ -z "$choices" ]; then
        case "$path" in
{choices}
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}}
complete -o bashdefault -o default -F _{function} {program}
"""
_FISH = """\
# fish completion of {program} {version}: put it into ~/.config/fish/completions/{program}.fish
function __{function}_path
    set -l path ""
    for each in (commandline -opc)[2..-1]
        switch "$path $each"
{commands}
        end
    end
    echo $path
end
complete -c {program} -f
{choices}
"""
_ZSH = "#compdef {program}\nautoload -U +X bashcompinit && bashcompinit\n"
_EXAMPLES = """\
examples:
  kafka-eos-exporter generate completion bash > /etc/bash_completion.d/kafka-eos-exporter
  kafka-eos-exporter generate completion zsh >> ~/.zshrc
  kafka-eos-exporter generate completion fish > ~/.config/fish/completions/kafka-eos-exporter.fish
"""


class _Command(NamedTuple):
    """One command: its words after the program's name, its parser, and the names of the commands below it."""

    path: tuple[str, ...]
    parser: argparse.ArgumentParser
    below: tuple[str, ...]


def add_to(what: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``generate completion``."""
    completion = what.add_parser(
        "completion",
        help="print completion for a shell",
        description="Print the completion of commands and flags for a shell.",
        epilog=_EXAMPLES,
    )
    completion.add_argument("shell", choices=tuple(_SHELLS), help="the shell")
    completion.set_defaults(command=lambda options: _print(_SHELLS[options.shell](options.whole())))


def bash(parser: argparse.ArgumentParser) -> str:
    """Return a script for bash. Where nothing of ours fits, bash completes file names."""
    commands, values, choices = [], [], []
    for path, command, below in _commands(parser):
        here = " ".join(path)
        prefix = f"{here} " if here else " "
        commands += [f'            "{prefix}{name}") path="{" ".join((*path, name))}" ;;' for name in below]
        flags = []
        for action in command._actions:  # noqa: SLF001 -- argparse shows its own flags nowhere else
            flags += [flag for flag in action.option_strings if flag.startswith("--")]
            if action.choices and not isinstance(action.choices, Mapping):
                given = " ".join(map(str, action.choices))
                if action.option_strings:
                    values += [f'        "{here}:{flag}") choices="{given}" ;;' for flag in action.option_strings]
                else:
                    flags += map(str, action.choices)
        choices.append(f'            "{here}") choices="{" ".join((*below, *flags))}" ;;')
    return _BASH.format(
        program=PROGRAM,
        version=exporter.__version__,
        function=PROGRAM.replace("-", "_"),
        commands="\n".join(commands),
        values="\n".join(values),
        choices="\n".join(choices),
    )


def zsh(parser: argparse.ArgumentParser) -> str:
    """Return a script for zsh, which reads bash's by its own bashcompinit."""
    return _ZSH.format(program=PROGRAM) + bash(parser)


def fish(parser: argparse.ArgumentParser) -> str:
    """Return a script for fish. Commands and flags have their help; a flag with a value completes file names."""
    commands, choices = [], []
    for path, command, below in _commands(parser):
        here = " ".join(path)
        at = f'complete -c {PROGRAM} -n \'test "$(__{PROGRAM.replace("-", "_")}_path)" = "{here}"\''
        prefix = f"{here} " if here else " "
        commands += [
            f'            case "{prefix}{name}"\n                set path "{" ".join((*path, name))}"' for name in below
        ]
        choices += [f"{at} -a {name}" for name in below]
        for action in command._actions:  # noqa: SLF001 -- as above
            flags = [flag for flag in action.option_strings if flag.startswith("--")]
            given = (
                " ".join(map(str, action.choices)) if action.choices and not isinstance(action.choices, Mapping) else ""
            )
            value = f" -x -a '{given}'" if given else " -r -F" if action.nargs != 0 else ""
            choices += [f"{at} -l {flag[2:]}{value}{_fish_help(action.help)}" for flag in flags]
            if given and not flags:
                choices.append(f"{at} -a '{given}'")
    return _FISH.format(
        program=PROGRAM,
        version=exporter.__version__,
        function=PROGRAM.replace("-", "_"),
        commands="\n".join(commands),
        choices="\n".join(choices),
    )


def _fish_help(text: str | None) -> str:
    """The first sentence of a help text, quoted for fish."""
    if not text or text == argparse.SUPPRESS:
        return ""
    quoted = text.replace("%%", "%").split(". ")[0].replace("\\", "\\\\").replace("'", "\\'")
    return f" -d '{quoted}'"


_SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


def _commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[_Command]:
    children: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # noqa: SLF001 -- as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 -- as above
            children |= action.choices
    yield _Command(path, parser, tuple(children))
    for name, child in children.items():
        yield from _commands(child, (*path, name))


def _print(text: str) -> int:
    print(text, end="")
    return 0
