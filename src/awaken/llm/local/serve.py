"""The program of the child process: llama.cpp, serving one model on a local port.

It is run as a file and knows nothing of awaken. Settings come as one line of JSON on standard
input; the address goes out as one line of JSON. When standard input ends, so does the program:
its parent has closed it, or is dead.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    llama: Any = import_module("xllamacpp")
    server = llama.Server(_params(llama, settings))
    print(json.dumps({"url": server.listening_address}), flush=True)
    # Nobody reads on: what llama.cpp has to say must not fill the pipe.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    while sys.stdin.read(1):
        pass
    os._exit(0)  # an answer that is being written is not waited for


def _params(llama: Any, settings: dict[str, Any]) -> Any:
    params = llama.CommonParams()
    params.model.path = settings["model"]
    params.api_keys = [settings["key"]]
    params.n_ctx = settings["context"]
    params.n_parallel = 1
    # Between two batches it sees whether anybody still listens; larger ones are hardly faster.
    params.n_batch = params.n_ubatch = 64
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    # As the makers of small models advise: left to themselves, they lose the thread.
    params.sampling.temp, params.sampling.top_p = 0.2, 0.9
    params.sampling.penalty_repeat = 1.1
    params.verbosity = -1
    params.warmup = False
    return params


if __name__ == "__main__":
    main()
