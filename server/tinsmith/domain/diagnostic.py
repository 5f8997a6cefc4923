"""What an editor's language servers say of a document."""

from typing import Literal

import msgspec

DiagnosticSeverity = Literal["error", "warning", "information", "hint"]


class Diagnostic(msgspec.Struct, frozen=True):
    """One finding. `line` is 1-based, `column` 1-based in the editor's position encoding."""

    line: int
    column: int
    severity: DiagnosticSeverity
    message: str
    source: str = ""
    code: str = ""


class DocumentDiagnostics(msgspec.Struct, frozen=True):
    """Every finding in one document; `version` is the text they are known to speak of, None when that is not known."""

    path: str
    version: int | None
    items: tuple[Diagnostic, ...]
