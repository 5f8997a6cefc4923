"""Faults planted into a real server: Python that its interpreter runs before the product's first line."""

import os
from pathlib import Path

NOISE = """
import os, subprocess, sys, warnings
from tinsmith.workspace import files

quiet = files.read_file

def read_file(path):
    print("boo from print")
    os.write(1, b"boo from write")
    subprocess.run(["echo", "boo from a child"])
    warnings.warn("boo from a warning")
    sys.stdout.flush()
    return quiet(path)

files.read_file = read_file
"""
"""A library that writes to stdout in every way there is."""

BROKEN_VIEW = """
from tinsmith.services import inspection

def messages_view(*_):
    raise ValueError("broken in " + __file__)

inspection.messages_view = messages_view
"""
"""A request that runs into a bug."""

SLOW_NAMES = """
import socket, time

def getaddrinfo(*_, **__):
    open(__file__ + ".asked", "w").close()
    time.sleep(60)

socket.getaddrinfo = getaddrinfo
"""
"""A name server that does not answer: a thread that nobody can interrupt. It leaves `sitecustomize.py.asked`."""


def planted(folder: Path, fault: str) -> dict[str, str]:
    """The environment of a server with this fault in it."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(fault)
    return {"PYTHONPATH": os.fspath(folder)}
