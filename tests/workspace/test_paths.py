"""The gate of paths, and paths as URIs (SYNC-03)."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.errors import ToolError
from tinsmith.workspace.paths import locate, path_of_uri, twin_of, uri_of_path


@pytest.mark.parametrize(
    ("uris", "path"),
    [
        (
            ["file:///c%3A/Users/Ann%20B/x.py", "file:///C:/Users/Ann%20B/x.py", "file:///c:/Users/Ann%20B/x.py"],
            "c:\\Users\\Ann B\\x.py",
        ),
        (["file:///home/ann/a%20b/%23c%25.py", "FILE:///home/ann/a%20b/%23c%25.py"], "/home/ann/a b/#c%.py"),
        (["file:///home/ann/caf%C3%A9.md", "file:///home/ann/café.md"], "/home/ann/café.md"),
        (["file:///home/ann/what%3F.txt", "file://localhost/home/ann/what%3F.txt"], "/home/ann/what?.txt"),
        (["file:/home/ann/x"], "/home/ann/x"),
        (["file://host/share/x"], "//host/share/x"),
    ],
)
def test_each_form_of_a_uri_is_one_path(uris, path):
    assert {path_of_uri(uri) for uri in uris} == {path}
    assert path_of_uri(uri_of_path(path)) == path


def test_other_schemes_name_no_file():
    assert path_of_uri("untitled:Untitled-1") is None
    assert path_of_uri("https://example.org/x") is None


@given(st.lists(st.binary(min_size=1, max_size=6).filter(lambda part: not {0, 47} & set(part)), min_size=1, max_size=3))
def test_every_path_survives_its_uri(parts):
    path = os.fsdecode(b"/x/" + b"/".join(parts))
    uri = uri_of_path(path)
    assert uri.isascii()
    assert path_of_uri(uri) == path


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.txt").write_text("s")
    (root / "link").symlink_to(tmp_path / "out")
    (root / "inner").symlink_to(root / "src")
    return root


@pytest.mark.parametrize(
    ("path", "shown", "is_outside"),
    [
        ("src/a.py", "src/a.py", False),
        ("./src/../src/a.py", "src/a.py", False),
        ("inner/a.py", "src/a.py", False),
        ("new/b.py", "new/b.py", False),
        ("../out/secret.txt", "{out}/secret.txt", True),
        ("src/../../out/secret.txt", "{out}/secret.txt", True),
        ("link/secret.txt", "{out}/secret.txt", True),
        ("link/../out/secret.txt", "{out}/secret.txt", True),
        ("file://{root}/src/a.py", "src/a.py", False),
        ("file://{root}/%2E%2E/out/secret.txt", "{out}/secret.txt", True),
        ("{root}/src/a.py", "src/a.py", False),
        ("/etc/hostname", "/etc/hostname", True),
        (".", ".", False),
    ],
)
def test_nothing_leaves_the_root_unseen(root, path, shown, is_outside):
    names = {"root": str(root), "out": str(root.parent / "out")}
    place = locate(path.format(**names), str(root))
    assert (place.shown, place.is_outside) == (shown.format(**names), is_outside)
    assert place.path == os.path.realpath(place.path)


def test_a_sibling_with_the_same_beginning_is_outside(root):
    assert locate(f"{root}-two/x", str(root)).is_outside


def test_the_root_may_be_a_symlink(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    place = locate("src/a.py", str(tmp_path / "alias"))
    assert (place.path, place.shown, place.is_outside) == (str(root / "src" / "a.py"), "src/a.py", False)
    assert place.given == str(tmp_path / "alias" / "src" / "a.py")


def test_home_is_outside_and_open_folders_are_not(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root.parent))
    assert locate("~/out/secret.txt", str(root)).path == str(root.parent / "out" / "secret.txt")
    assert locate("~/out/secret.txt", str(root)).is_outside
    assert not locate("~/out/secret.txt", str(root), [str(root.parent / "out")]).is_outside


@pytest.mark.parametrize("path", ["", "a\0b", "file:"])
def test_what_is_no_path_is_refused(root, path):
    with pytest.raises(ToolError) as refusal:
        locate(path, str(root))
    assert refusal.value.code == "badPath"


@pytest.mark.parametrize(
    ("path", "is_secret"),
    [
        (".env", True),
        ("deploy/.env.production", True),
        ("server.pem", True),
        ("KEY.PEM", True),
        ("id_rsa", True),
        (".ssh/config", True),
        ("id_ed25519.pub", False),
        ("environment.py", False),
        ("keys.py", False),
        ("monkey.py", False),
    ],
)
def test_secret_files_are_known_by_name(root, path, is_secret):
    assert locate(path, str(root)).is_secret is is_secret


def test_a_link_to_a_secret_is_secret(root):
    (root / ".env").write_text("K=v")
    (root / "plain.txt").symlink_to(root / ".env")
    assert locate("plain.txt", str(root)).is_secret


@pytest.mark.parametrize(
    ("there", "asked", "is_twin"),
    [
        ("README.md", "Readme.md", True),
        ("Straße", "STRASSE", True),
        ("caf\u00e9.txt", "cafe\u0301.txt", True),
        ("ﬁle.txt", "file.txt", True),
        ("Src/deep/x", "src/deep/y", True),
        ("src/x", "src/y", False),
        ("a.txt", "b.txt", False),
    ],
)
def test_a_name_that_differs_only_in_case_or_form_is_noticed(tmp_path, there, asked, is_twin):
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_text("x")
    first = there.partition("/")[0]
    assert twin_of(str(tmp_path / asked)) == (str(tmp_path / first) if is_twin else None)


def test_nothing_is_a_twin_where_nothing_can_be_looked_at(tmp_path):
    (tmp_path / "file").write_text("x")
    assert twin_of(str(tmp_path / "file" / "below")) is None
    assert twin_of("/") is None
