"""What a command inherits (SH-16)."""

from tinsmith.proc.environment import child_environment, known_values

INHERITED = {
    "PATH": "/bin",
    "HOME": "/home/ann",
    "OPENAI_API_KEY": "sk-test",
    "MY_LLM_KEY": "k-test",
    "SOME_API_KEY": "abc",
    "GITHUB": "ghp_" + "a1" * 18,
    "NOTE": "about ghp_ tokens",
}


def test_secrets_are_left_out():
    assert child_environment(INHERITED, {"MY_LLM_KEY"}) == {
        "PATH": "/bin",
        "HOME": "/home/ann",
        "NOTE": "about ghp_ tokens",
    }


def test_only_distinctive_values_are_looked_for():
    inherited = {"OPENAI_API_KEY": "not-needed", "MY": "k3y-0123456789", "LLM_API_KEY": "ollama", "PATH": "/usr/bin1"}
    assert known_values(inherited, {"MY"}) == ("k3y-0123456789",)
