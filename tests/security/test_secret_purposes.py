"""A secret serves one purpose, and no reference reaches a secret of the installation itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirrors.kafka.security.secret_scopes import Purpose
from mirrors.kafka.security.secrets import SecretUnavailable, check_reference, resolve, resolve_mask

KAFKA, NOTIFY, MASK = Purpose


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory as a container engine makes it: everybody's secrets side by side."""
    place = tmp_path / "secrets"
    (place / "notify").mkdir(parents=True)
    for name in ("primary.key", "django", "database", "smtp", "notify-key", "notify/slack"):
        (place / name).write_text(f"value of {name}")
    return place


def refusal(reference: str, purpose: Purpose, root: Path, **names: str) -> str | None:
    environ = {"UNDERSTUDY_SECRET_ROOTS": str(root), **names}
    said = check_reference(reference, purpose=purpose, environ=environ)
    if said is not None:
        with pytest.raises(SecretUnavailable):
            resolve(reference, purpose=purpose, environ=environ)
    return said


@pytest.mark.parametrize(
    "name",
    [
        "UNDERSTUDY_SMTP_PASSWORD",
        "UNDERSTUDY_NOTIFY_SLACK",
        "UNDERSTUDY_SECRET_KEY",
        "UNDERSTUDY_ANYTHING",
        "DATABASE_URL",
        "REDIS_URL",
        "DATABASE_URL_FILE",
        "DJANGO_SECRET",
        "PGPASSWORD",
        "_SPARK_AUTH_SECRET",
    ],
)
def test_a_cluster_never_reaches_a_variable_of_ours_whatever_the_pattern_allows(
    name: str, root: Path
) -> None:
    wide = {"UNDERSTUDY_SECRET_ENV_PATTERN": ".*", name: "value"}
    said = refusal(f"env:{name}", KAFKA, root, **wide)
    assert said is not None
    assert "belongs to Understudy itself" in said
    assert "KAFKA_" in said
    assert refusal("env:PROD_PASSWORD", KAFKA, root, **wide) is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("UNDERSTUDY_SECRET_KEY_FILE", "{}"),
        ("DATABASE_URL_FILE", " {} "),
        ("REDIS_URL_FILE", "{}"),
        ("UNDERSTUDY_SMTP_PASSWORD_FILE", "{}"),
        ("UNDERSTUDY_SIGNING_KEY_FILE", "{}"),
        ("UNDERSTUDY_SIGNING_KEY_PATH", "{}"),
        ("UNDERSTUDY_A_LATER_KEY_FILE", "{}"),
        ("UNDERSTUDY_RESERVED_FILES", "/elsewhere:{}"),
        ("DATABASE_URL", "postgresql://u@h/n?sslmode=verify-full&sslkey={}"),
        ("REDIS_URL", "rediss://h:6379/0?ssl_keyfile={}"),
        ("PGPASSFILE", "{}"),
        ("DATABASE_URL", "sqlite:///{}"),
    ],
)
def test_a_file_that_one_of_our_variables_names_is_refused_by_its_real_path(
    variable: str, value: str, root: Path
) -> None:
    (root / "link").symlink_to(root / "django")
    os.link(root / "django", root / "hard")
    (root / "folder").symlink_to(root)
    (root / "notify-link").symlink_to(root / "django")
    names = {variable: value.format(root / "django")}
    for reference in (
        f"file:{root}/django",
        f"file:{root}/link",
        f"file:{root}/hard",
        f"file:{root}/folder/django",
        f"file:{root}/../secrets/django",
        f"properties:{root}/django:value",
    ):
        said = refusal(reference, KAFKA, root, **names)
        assert said is not None
        assert f"belongs to Understudy itself ({variable} names it)" in said
    assert refusal(f"file:{root}/notify-link", NOTIFY, root, **names) is not None
    assert refusal(f"file:{root}/primary.key", KAFKA, root, **names) is None


def test_our_variable_may_name_a_link_and_the_file_behind_it_is_refused(root: Path) -> None:
    (root / "ours").symlink_to(root / "django")
    names = {"UNDERSTUDY_SECRET_KEY_FILE": str(root / "ours")}
    assert refusal(f"file:{root}/django", KAFKA, root, **names) is not None


def test_clusters_and_channels_share_no_secret(root: Path) -> None:
    for path in ("notify-key", "notify/slack"):
        assert refusal(f"file:{root}/{path}", NOTIFY, root) is None
        said = refusal(f"file:{root}/{path}", KAFKA, root)
        assert "reserved for channels and hooks" in (said or "")
    for reference in (
        f"file:{root}/primary.key",
        f"properties:{root}/primary.key:value",
        "properties:/etc/hosts:a",
        "env:KAFKA_PASSWORD",
        "env:UNDERSTUDY_SMTP_PASSWORD",
        "env:UNDERSTUDY_NOTIFY_ALLOW",
    ):
        assert "created for them" in (refusal(reference, NOTIFY, root, KAFKA_PASSWORD="x") or "")
    (root / "notify-borrowed").symlink_to(root / "primary.key")
    assert refusal(f"file:{root}/notify-borrowed", NOTIFY, root) is not None


def test_channels_may_have_a_directory_of_their_own(root: Path, tmp_path: Path) -> None:
    own = tmp_path / "alerts"
    own.mkdir()
    (own / "slack").write_text("address")
    names = {"UNDERSTUDY_NOTIFY_ROOTS": str(own)}
    assert refusal(f"file:{own}/slack", NOTIFY, root, **names) is None
    assert refusal(f"file:{own}/slack", KAFKA, root, **names) is not None
    assert str(own) in (refusal(f"file:{root}/notify-key", NOTIFY, root, **names) or "")
    # Nor where somebody put that directory inside the one of the clusters.
    inside = {"UNDERSTUDY_NOTIFY_ROOTS": str(root / "notify")}
    assert refusal(f"file:{root}/notify/slack", KAFKA, root, **inside) is not None
    assert refusal(f"file:{root}/notify-key", KAFKA, root, **inside) is None


def test_masks_share_no_secret_with_clusters_nor_with_channels(root: Path) -> None:
    (root / "mask-customers").write_text("key")
    (root / "mask-borrowed").symlink_to(root / "primary.key")
    (root / "mask-alerts").symlink_to(root / "notify-key")
    names = {"UNDERSTUDY_MASK_CUSTOMERS": "x", "KAFKA_FREE": "y"}
    for reference in (f"file:{root}/mask-customers", "env:UNDERSTUDY_MASK_CUSTOMERS"):
        assert refusal(reference, MASK, root, **names) is None
        assert refusal(reference, KAFKA, root, **names) is not None
        assert refusal(reference, NOTIFY, root, **names) is not None
    for reference in (
        "env:KAFKA_FREE",
        "env:UNDERSTUDY_SECRET_KEY",
        "env:UNDERSTUDY_MASK_ROOTS",
        f"file:{root}/primary.key",
        f"file:{root}/mask-borrowed",
        f"file:{root}/mask-alerts",
        f"properties:{root}/primary.key:value",
    ):
        assert "created for them" in (refusal(reference, MASK, root, **names) or "")
    together = {"UNDERSTUDY_MASK_ROOTS": str(root), "UNDERSTUDY_NOTIFY_ROOTS": str(root)}
    assert "reserved for" in (refusal(f"file:{root}/notify-key", MASK, root, **together) or "")


def test_a_runner_resolves_masks_of_both_kinds_and_nothing_else(root: Path) -> None:
    environ = {"UNDERSTUDY_MASK_A": "new", "KAFKA_A": "old", "PATH": "/bin"}
    assert resolve_mask("env:UNDERSTUDY_MASK_A", environ).reveal() == "new"
    assert resolve_mask("env:KAFKA_A", environ).reveal() == "old"
    with pytest.raises(SecretUnavailable):
        resolve_mask("env:PATH", environ)


@pytest.mark.parametrize(
    "path", ["kubernetes.io/serviceaccount/token", "eks.amazonaws.com/t/token", "azure/tokens/t"]
)
def test_what_the_platform_mounts_is_no_password_of_a_cluster(path: str, root: Path) -> None:
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text("token")
    said = refusal(f"file:{root}/{path}", KAFKA, root)
    assert "credential of the platform" in (said or "")


def test_ordinary_references_work_as_before_without_any_setting() -> None:
    ordinary = ["file:/run/secrets/primary.key", "properties:/run/secrets/a.properties:pw"]
    for reference in ("env:KAFKA_PRIMARY_PASSWORD", *ordinary, "file:/run/secrets/mm/user.key"):
        assert check_reference(reference, environ={}) is None
    for reference in ("env:UNDERSTUDY_NOTIFY_KEY", "file:/run/secrets/notify-key"):
        assert check_reference(reference, purpose=NOTIFY, environ={}) is None
