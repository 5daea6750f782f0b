"""The program of the child process: llama.cpp, serving one model on a local port.

It is run as a file and does not import awaken. It reads its settings as one line of JSON from
standard input, and writes its address as one line of JSON. It exits when standard input ends,
because its parent has closed it or has died.
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
    # The parent reads no further: the output of llama.cpp must not fill the pipe.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    while sys.stdin.read(1):
        pass
    os._exit(0)  # an unfinished answer is not waited for


def _params(llama: Any, settings: dict[str, Any]) -> Any:
    params = llama.CommonParams()
    params.model.path = settings["model"]
    params.api_keys = [settings["key"]]
    params.n_ctx = settings["context"]
    params.n_parallel = 1
    # It notices a closed connection only between two batches; larger ones are hardly faster.
    params.n_batch = params.n_ubatch = 64
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    # As the makers of small models advise: with the defaults, these models become incoherent.
    params.sampling.temp, params.sampling.top_p = 0.2, 0.9
    params.sampling.penalty_repeat = 1.1
    params.verbosity = -1
    params.warmup = False
    return params


if __name__ == "__main__":
    main()
