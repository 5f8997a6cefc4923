"""A language server that does what a test tells it: `python peer.py SOCKET STORE`.

Speaks the agent protocol on stdio from the standard library alone. A test connects to SOCKET, writes one
JSON line and reads one. What conversations hold is in the file STORE, so that a second process finds it.
"""

import json
import os
import queue
import re
import socket
import sys
import threading
import time
from pathlib import Path

EPOCH = f"epoch-{os.getpid()}"
NO_USAGE = {"input": 0, "output": 0, "total": 0, "cached": 0, "reasoning": 0}


class Peer:
    def __init__(self, store: Path):
        self.store = store
        self.received = []
        self.replies = {}
        self.waiting = {}
        self.seqs = {}
        self.next_id = 0
        self.is_deaf = False
        self.writing = threading.Lock()
        self.numbering = threading.Lock()

    # the editor's side

    def read(self):
        stdin = sys.stdin.buffer
        while True:
            length = 0
            while (line := stdin.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            if not length:
                return
            self.take(json.loads(stdin.read(length)))

    def write(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        with self.writing:
            sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            sys.stdout.buffer.flush()

    def take(self, message):
        self.received.append(message)
        method = message.get("method")
        if method is None:
            self.waiting.pop(message["id"]).put(message)
        elif method == "exit" and not self.is_deaf:
            os._exit(0)
        elif "id" in message and not self.is_deaf:
            self.write({"id": message["id"], **self.answer(method, message.get("params") or {})})
            if method == "agent/runTurn" and method not in self.replies:
                self.begin_turn(message["params"])

    def answer(self, method, params):
        if method in self.replies:
            return self.replies[method]
        own = getattr(self, "on_" + re.sub("([A-Z])", r"_\1", method.rpartition("/")[2]).lower(), None)
        if own is None:
            return {"error": {"code": -32601, "message": f"The peer does not know {method}."}}
        return {"result": own(params)}

    def on_initialize(self, params):
        sync = {"openClose": True, "change": 2, "save": {"includeText": False}}
        agent = {"version": 1, "schemaHash": "", "epoch": EPOCH}
        offered = params["capabilities"]["general"]["positionEncodings"]
        encoding = os.environ.get("PEER_ENCODING", offered[0])
        return {
            "serverInfo": {"name": "peer", "version": "0"},
            "capabilities": {
                "positionEncoding": encoding,
                "textDocumentSync": sync,
                "experimental": {"agent": agent},
            },
        }

    def on_shutdown(self, params):
        return None

    def stored(self):
        return json.loads(self.store.read_text()) if self.store.exists() else {}

    def record(self, conversation):
        return {
            "conversationId": conversation,
            "workspace": "file:///",
            "createdAt": 1,
            "updatedAt": 1_700_000_000_000,
            "title": f"About {conversation}",
        }

    def on_conversation_new(self, params):
        stored = self.stored()
        conversation = f"c{len(stored) + 1}"
        self.store.write_text(json.dumps({conversation: [], **stored}))
        return {"conversation": self.record(conversation)}

    def on_conversation_list(self, params):
        return {"conversations": [self.record(name) for name in self.stored()][: params["limit"]]}

    def on_conversation_load(self, params):
        conversation = params["conversationId"]
        return {
            "conversation": self.record(conversation),
            "snapshot": self.snapshot(conversation),
            "epoch": EPOCH,
            "seq": self.seqs.get(conversation, 0),
        }

    def snapshot(self, conversation):
        return {
            "activeTurn": None,
            "pending": [],
            "usage": NO_USAGE,
            "context": {"used": 0, "size": 1000},
            "lastItems": self.stored()[conversation],
        }

    def on_run_turn(self, params):
        is_steering = params["mode"] != "start"
        return {
            "conversationId": params["conversationId"],
            "turnId": params["turnId"],
            "disposition": "steered" if is_steering else "started",
            "seq": self.seqs.get(params["conversationId"], 0),
        }

    def on_cancel(self, params):
        return {"state": "cancelling"}

    def on_inspect(self, params):
        return {"what": params["what"], "parts": [{"name": "system", "text": "one\ntwo", "tokens": 3}]}

    def on_config_get(self, params):
        values = {"active_role": "direct", "permission_mode": "ask", "default_model": "scripted"}
        return {"values": values, "layers": {}, "options": [], "version": 1}

    def begin_turn(self, params):
        if params["mode"] == "start":
            text, turn = params["text"], params["turnId"]
            started = {"type": "turnStarted", "turnId": turn, "itemId": "u-" + turn, "text": text}
            self.event(params["conversationId"], {**started, "model": "scripted", "role": "direct"})

    def event(self, conversation, event):
        with self.numbering:
            seq = self.seqs[conversation] = self.seqs.get(conversation, 0) + 1
            envelope = {"conversationId": conversation, "epoch": EPOCH, "seq": seq, "ts": int(time.time() * 1000)}
            if not event.pop("isLost", False):
                self.write({"method": "agent/event", "params": {**envelope, **event}})

    # the test's side

    def obey(self, order):
        do = order["do"]
        if do == "received":
            return self.received
        if do == "pid":
            return os.getpid()
        if do == "event":
            return self.event(order["conversation"], order["event"])
        if do == "reply":
            self.replies[order["method"]] = order["reply"]
            return None
        if do == "deaf":
            self.is_deaf = True
            return None
        if do == "notify":
            return self.write({"method": order["method"], "params": order["params"]})
        return self.request(order["method"], order["params"])

    def request(self, method, params):
        self.next_id += 1
        identifier, answer = self.next_id, queue.Queue()
        self.waiting[identifier] = answer
        self.write({"id": identifier, "method": method, "params": params})
        return answer.get(timeout=30)

    def listen(self, path):
        server = socket.socket(socket.AF_UNIX)
        Path(path).unlink(missing_ok=True)
        server.bind(path)
        server.listen()
        while True:
            connection, _ = server.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rw") as stream:
            for line in stream:
                stream.write(json.dumps(self.obey(json.loads(line))) + "\n")
                stream.flush()


if __name__ == "__main__":
    peer = Peer(Path(sys.argv[2]))
    threading.Thread(target=peer.listen, args=(sys.argv[1],), daemon=True).start()
    peer.read()
