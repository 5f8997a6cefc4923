"""Programs by name: which only read, and what the others are known for. Tables; pure."""

import re
from collections.abc import Sequence

from tinsmith.domain.policy import CommandClass


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


HARMLESS = names(
    "arch b2sum basename cat cd cksum cmp comm cut df diff dirname du echo egrep expand expr factor false fgrep fmt "
    "fold free getconf grep groups head hexdump id join locale ls lsblk lscpu md5sum nl nproc numfmt od paste pgrep pr "
    "printenv ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum sha512sum sleep stat strings sum "
    "tac tail tr true tsort tty type uname unexpand uptime wc whereis which whoami yes : break continue exit return"
)
"""These neither write, nor start another program, nor use the network, whatever words they get."""

LOOKERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "base32": ("o", ("--output",)),
    "base64": ("o", ("--output",)),
    "fd": ("xX", ("--exec", "--exec-batch")),
    "file": ("CzZS", ("--compile", "--uncompress", "--uncompress-noreport", "--no-sandbox")),
    "jq": ("", ()),
    "rg": ("z", ("--pre", "--pre-glob", "--hostname-bin", "--search-zip")),
    "shuf": ("o", ("--output",)),
    "sort": ("oTS", ("--output", "--compress-program", "--temporary-directory", "--buffer-size")),
    "tree": ("oR", ("--output",)),
}
"""These are harmless without the listed short and long options."""

PATTERN_FIRST = names("grep egrep fgrep rg fd jq awk sed")
"""Their first word is no path."""
PATHLESS = names(
    "echo : true false sleep seq yes expr tr exit return break continue factor numfmt basename dirname type which "
    "whereis id groups pgrep ps uname date"
)
"""None of their words is a path that is read."""

_PRIVILEGED = names(
    "sudo su doas pkexec mount umount systemctl service init telinit insmod rmmod modprobe iptables ip6tables nft ufw "
    "useradd userdel usermod groupadd passwd chpasswd visudo chroot unshare nsenter reboot shutdown halt poweroff "
    "sysctl setcap swapon swapoff losetup crontab at batch loginctl hostnamectl timedatectl setenforce launchctl "
    "docker podman nerdctl"
)
_DESTRUCTIVE = names(
    "rm rmdir mv dd shred unlink truncate wipefs fdisk parted sgdisk mkswap blkdiscard kill pkill killall chown chgrp"
)
_NETWORK = names(
    "curl wget ssh scp sftp rsync nc ncat netcat socat telnet ftp lftp ping ping6 traceroute dig nslookup host whois "
    "http https aria2c apt apt-get aptitude dnf yum pacman apk brew snap flatpak gh glab kubectl helm aws gcloud az "
    "npx pipx gem composer twine"
)
_NETWORK_VERBS: dict[str, frozenset[str]] = {
    "npm": names("install i ci add update up publish audit login outdated view search exec init create"),
    "pnpm": names("install i add update up publish audit login outdated dlx create"),
    "yarn": names("install add upgrade up publish audit login outdated dlx create"),
    "bun": names("install i add update upgrade publish x create"),
    "pip": names("install download wheel search index"),
    "uv": names("add sync lock pip tool publish"),
    "poetry": names("install add update lock publish"),
    "cargo": names("install add update publish fetch search login"),
    "go": names("get install mod"),
    "bundle": names("install update add"),
    "git": names("clone fetch pull push ls-remote submodule"),
}
_GIT_DESTRUCTIVE = names("clean rm restore filter-branch filter-repo update-ref reflog prune")
_GIT_OPTIONS: dict[str, re.Pattern[str]] = {
    "push": re.compile(r"-f|--force.*|-d|--delete|--mirror|--prune|\+.*|:.*"),
    "reset": re.compile(r"--hard|--merge|--keep"),
    "checkout": re.compile(r"-f|--force|--|\.|-B"),
    "switch": re.compile(r"-f|--force|--discard-changes|-C"),
    "branch": re.compile(r"-[dDMCf]|--delete|--force"),
    "tag": re.compile(r"-d|-f|--delete|--force"),
    "stash": re.compile(r"drop|clear|pop"),
    "worktree": re.compile(r"remove|prune"),
    "gc": re.compile(r"--prune.*|--aggressive"),
    "remote": re.compile(r"remove|rm|prune"),
}
"""Words that make a subcommand lose something."""
_GIT_VALUED = names("-C -c --git-dir --work-tree --namespace")


def told_class(name: str, words: Sequence[str]) -> CommandClass:
    """The class of a program that does more than read, as far as its name and first words tell."""
    if name in _PRIVILEGED:
        return "privileged"
    if name in _DESTRUCTIVE or name.startswith("mkfs"):
        return "destructive"
    if name in _NETWORK:
        return "network"
    if re.fullmatch(r"python[\d.]*", name) and list(words[:2]) == ["-m", "pip"]:
        name, words = "pip", words[2:]
    verb, rest = _verb(name, words)
    if name == "git" and _loses_something(verb, rest):
        return "destructive"
    if re.fullmatch(r"pip[\d.]*", name):
        name = "pip"
    return "network" if (name, verb) == ("yarn", "") or verb in _NETWORK_VERBS.get(name, ()) else "unknown"


def _verb(name: str, words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The subcommand and what follows it; git's own options before it may have a value."""
    rest = list(words)
    while rest and rest[0].startswith(("-", "+")):
        option = rest.pop(0)
        if name == "git" and option in _GIT_VALUED and rest:
            rest.pop(0)
    return (rest[0], rest[1:]) if rest else ("", ())


def _loses_something(verb: str, rest: Sequence[str]) -> bool:
    option = _GIT_OPTIONS.get(verb)
    return verb in _GIT_DESTRUCTIVE or (option is not None and any(option.fullmatch(word) for word in rest))
