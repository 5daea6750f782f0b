"""What a process of ours has of our environment: what programs need to run, and no keys."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

INHERITED = (
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "PYTHONPATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
)
"""The variables a child has from its parent, besides `LC_*`. Keys and passwords are not among
them: `pass_env` names those it needs."""

DEPTH = "AWAKEN_PROCESS_DEPTH"
"""How many of the processes above one are agents' own: counted across all of them."""


def inherited(
    pass_env: Collection[str] = (), ours: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Our own values of the variables in the list, and of those in `pass_env`, if they have one."""
    wanted = {*INHERITED, *pass_env}
    return {name: value for name, value in ours.items() if name in wanted or name.startswith("LC_")}
