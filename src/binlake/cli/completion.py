"""`binlake completion SHELL`: the script that completes commands, options and values in a shell."""

from __future__ import annotations

from typing import Annotated

from click.shell_completion import get_completion_class

from binlake.cli.common.parameters import Argument
from binlake.errors import OptionError

_SHELLS = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[str, Argument(metavar="SHELL", help=f"One of {', '.join(_SHELLS)}.")],
) -> None:
    """Print the script that makes a shell complete commands, options, choices and file names.

    It supports bash 4.4 or newer, zsh and fish. Load it from the shell's start-up file.

    Examples:
      binlake completion bash > ~/.local/share/bash-completion/completions/binlake

      eval "$(binlake completion zsh)"

      binlake completion fish > ~/.config/fish/completions/binlake.fish
    """
    kind = get_completion_class(shell) if shell in _SHELLS else None
    if kind is None:
        raise OptionError(
            f"SHELL {shell}: expected one of {', '.join(_SHELLS)}", name="SHELL", value=shell
        )
    from binlake.cli.main import COMPLETION_VARIABLE, PROGRAM

    print(kind(PROGRAM, {}, "binlake", COMPLETION_VARIABLE).source().rstrip("\n"))
