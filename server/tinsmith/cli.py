"""Words on the command line, handed to the adapter that they name."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from tinsmith import __version__

MODES = ("read_only", "ask", "edits", "full")
USAGE_ERROR = 2


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code."""
    options = _parser().parse_args(arguments)
    return options.command(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tinsmith", description="A coding agent that lives behind an editor's language client."
    )
    parser.add_argument("--version", action="version", version=f"tinsmith {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="language server on stdin and stdout; what editors start")
    serve.set_defaults(command=_serve)
    turn = commands.add_parser("run", help="one turn without an editor")
    _add_turn_options(turn)
    turn.set_defaults(command=_run)
    demo = commands.add_parser("demo", help="the scripted demo model on a copy of a sample project")
    demo.add_argument("--headless", action="store_true", help="without Neovim even when it is there")
    demo.set_defaults(command=_demo)
    doctor = commands.add_parser("doctor", help="what is configured and reachable, and what to do about the rest")
    _add_model_options(doctor)
    doctor.add_argument("--rebuild-index", action="store_true", help="make the index of what was said anew")
    doctor.set_defaults(command=_doctor)
    _add_store_commands(commands)
    setup = commands.add_parser("setup", help="find a model, configure it, and try it")
    setup.add_argument("--yes", action="store_true", help="write what is proposed without asking")
    _add_provider_options(setup)
    setup.add_argument("--api-key-env", metavar="NAME", help="the variable that holds the key; never the key itself")
    setup.add_argument(
        "--api-key-keyring", metavar="ENTRY", help="the entry of the system's keyring that holds the key"
    )
    setup.set_defaults(command=_setup)
    export = commands.add_parser("export", help="a stored conversation, as Markdown or JSON Lines")
    export.add_argument("conversation", metavar="ID")
    export.add_argument("--format", choices=("markdown", "jsonl"), default="markdown", help="jsonl can be imported")
    export.set_defaults(command=_export)
    received = commands.add_parser("import", help="store an exported conversation as a new one")
    received.add_argument("file", metavar="FILE", help="JSON Lines; - reads them from standard input")
    received.add_argument("--workspace", metavar="DIR", default=".", help="the project it belongs to (default: here)")
    received.set_defaults(command=_import)
    schema = commands.add_parser("schema", help="the wire's types")
    schema.add_argument("--json", action="store_true", required=True, help="as JSON Schema")
    schema.set_defaults(command=_schema)
    return parser


def _add_store_commands(commands: Any) -> None:
    search = commands.add_parser("search", help="find what was said in any conversation")
    search.add_argument("words", metavar="WORD", nargs="+", help='words, beginnings (word*) and "phrases"')
    search.add_argument("--workspace", metavar="DIR", help="only conversations of this project")
    search.add_argument("--limit", metavar="COUNT", type=int, default=20, help="at most so many messages (default: 20)")
    search.add_argument("--json", action="store_true", help="every hit as a line of JSON")
    search.set_defaults(command=_search)
    backup = commands.add_parser("backup", help="copy everything that is stored to a new directory")
    backup.add_argument("directory", metavar="DIR", help="what the copy is to be called; must not be there yet")
    backup.set_defaults(command=_backup)


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workspace", metavar="DIR", default=".", help="the project (default: here)")
    _add_provider_options(parser)
    parser.add_argument(
        "--set", metavar="PATH=VALUE", action="append", default=[], type=_setting, help="any overridable setting"
    )


def _add_provider_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="ID")
    parser.add_argument("--base-url", metavar="URL", help="a provider's API, such as http://127.0.0.1:8080/v1")
    parser.add_argument("--dialect", metavar="NAME")


def _add_turn_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="what to do; - reads it from standard input")
    _add_model_options(parser)
    parser.add_argument("--role", metavar="NAME")
    parser.add_argument("--permission-mode", metavar="MODE", choices=MODES, help=", ".join(MODES))
    parser.add_argument("--conversation", metavar="ID", default="", help="go on with a stored conversation")
    parser.add_argument("--json", action="store_true", help="every event as a line of JSON")


def _setting(text: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATH=VALUE")
    return path, value


def _overrides(options: argparse.Namespace) -> dict[str, Any]:
    """The options as paths and values of the ephemeral layer; strings are read as configSet reads them."""
    named = {
        "default_model": options.model,
        "llm_config.base_url": options.base_url,
        "llm_config.dialect": options.dialect,
        "llm_config.api_key_env": getattr(options, "api_key_env", None),
        "llm_config.api_key_keyring": getattr(options, "api_key_keyring", None),
        "active_role": getattr(options, "role", None),
        "permission_mode": getattr(options, "permission_mode", None),
    }
    return {**{path: value for path, value in named.items() if value is not None}, **dict(getattr(options, "set", ()))}


def _serve(_: argparse.Namespace) -> int:
    from tinsmith.adapters.lsp.bootstrap import serve

    return serve()


def _run(options: argparse.Namespace) -> int:
    from tinsmith.adapters.headless import run_turn

    text = sys.stdin.read() if options.text == "-" else options.text
    if not text.strip():
        sys.stderr.write("tinsmith run: the text is empty. Say what to do.\n")
        return USAGE_ERROR
    return run_turn(
        text,
        workspace=options.workspace,
        overrides=_overrides(options),
        conversation_id=options.conversation,
        is_json=options.json,
    )


def _demo(options: argparse.Namespace) -> int:
    from tinsmith.demo.show import run_demo

    return run_demo(is_headless=options.headless)


def _doctor(options: argparse.Namespace) -> int:
    from tinsmith.adapters.doctor import examine

    return examine(workspace=options.workspace, overrides=_overrides(options), is_index_rebuilt=options.rebuild_index)


def _search(options: argparse.Namespace) -> int:
    from tinsmith.adapters.search import search_store

    return search_store(
        " ".join(options.words), workspace=options.workspace, limit=max(options.limit, 1), is_json=options.json
    )


def _backup(options: argparse.Namespace) -> int:
    from tinsmith.adapters.backup import back_up_store

    return back_up_store(options.directory)


def _setup(options: argparse.Namespace) -> int:
    from tinsmith.adapters.setup import set_up

    return set_up(overrides=_overrides(options), is_confirmed=options.yes)


def _export(options: argparse.Namespace) -> int:
    from tinsmith.adapters.transfer import export_conversation

    return export_conversation(options.conversation, options.format)


def _import(options: argparse.Namespace) -> int:
    from tinsmith.adapters.transfer import import_conversation

    return import_conversation(options.file, options.workspace)


def _schema(_: argparse.Namespace) -> int:
    from tinsmith.adapters.lsp.schema import schema_json

    sys.stdout.write(schema_json() + "\n")
    return 0
