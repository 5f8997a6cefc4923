"""Whose certificates are believed: what the environment names, else what the system trusts."""

import os
import ssl
import sys

from tinsmith.domain.errors import SchemaError


def trusting_context() -> ssl.SSLContext:
    """The client's side of TLS. Reads files, so it is made off the loop.

    SSL_CERT_FILE and SSL_CERT_DIR stand for everything else, as in OpenSSL. Raises SchemaError `invalidCertificates`.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or folder:
        return _named(file or None, folder or None)
    if sys.platform in {"darwin", "win32"}:  # their stores are no files, so OpenSSL does not see them
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ssl.get_default_verify_paths().cafile:
        return ssl.create_default_context()
    import httpx

    context = httpx.create_ssl_context()  # Mozilla's list, where the system has none, as in many containers
    context.load_default_certs()
    return context


def _named(file: str | None, folder: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        message = (
            f"SSL_CERT_FILE names {file}, and no certificates can be read from there. Set it to a file in PEM format,"
            " or unset it to trust what the system trusts, and start again."
        )
        raise SchemaError("invalidCertificates", message, origin="net") from error
