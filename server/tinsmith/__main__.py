"""The command `tinsmith`. The language server starts without the command line's own imports."""

import sys


def main() -> int:
    """Run the command that the arguments name; the exit code."""
    if sys.argv[1:] == ["serve"]:
        from tinsmith.adapters.lsp.bootstrap import serve

        return serve()
    from tinsmith.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
