"""Lists of people and of their API tokens."""

from __future__ import annotations

from mirrors.lists.columns import Column, ListSpec, in_files, in_rest, on_page

TOKENS = ListSpec(
    "tokens",
    rows="tokens",
    columns=(
        Column("start", "Token", field="key"),
        Column("name", "For"),
        Column("scope", "May"),
        Column("created", "Created"),
        Column("expiry", "Valid until"),
        Column("last_used_at", "Last use"),
        Column("last_address"),
        on_page("Revoke", hidden=True),
    ),
)
PEOPLE = ListSpec(
    "people",
    rows="people",
    columns=(
        *in_rest("id"),
        Column("username", "Name"),
        Column("role_word", "Role", field="role"),
        Column("extras", "Further roles"),
        *in_files("is_superuser"),
        Column("is_active", "Account", field="active"),
        Column("email", field="email"),
        Column("last_login", "Last sign-in"),
        *in_rest("locked", "tokens"),
    ),
)
GRANTS = ListSpec(
    "grants",
    rows="grants",
    columns=(
        *in_rest("id"),
        Column("user.username", "Person", ("user__username",), field="username"),
        Column("group", "Group of the sign-in", ("group",)),
        Column("role", "Role", ("role",)),
        Column("scope", "On", ("scope",)),
        Column("cluster.alias", "Cluster", field="cluster"),
        Column("flow_id", "Flow", field="flow"),
        Column("label", "Label", ("label",)),
        Column("created_by", "Given by"),
        Column("created_at", "Given", ("created_at",)),
        on_page("Take", hidden=True),
    ),
    search=("user__username", "group", "label"),
    default="created_at",
)
