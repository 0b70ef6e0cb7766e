"""URLs of accounts, search and help."""

from django.contrib.auth import views as auth
from django.urls import path

from controlplane.pages import accounts, grants, search
from controlplane.single_sign_on import passwords
from controlplane.single_sign_on import views as single_sign_on
from mirrors.models import needs

urlpatterns = [
    path("login/", passwords.SignIn.as_view(), name="login"),
    path("logout/", needs(None)(single_sign_on.Logout.as_view()), name="logout"),
    path("oidc/login/", single_sign_on.SignIn.as_view(), name="oidc_authentication_init"),
    path("oidc/callback/", single_sign_on.Callback.as_view(), name="oidc_authentication_callback"),
    path("oidc/backchannel-logout/", single_sign_on.backchannel_logout, name="oidc-logout"),
    path(
        "account/password/",
        needs(None)(auth.PasswordChangeView.as_view()),
        name="password_change",
    ),
    path(
        "account/password/done/",
        needs(None)(auth.PasswordChangeDoneView.as_view()),
        name="password_change_done",
    ),
    path("account/one-time-codes/", passwords.one_time_code, name="one-time-code"),
    path("account/time-zone/", accounts.time_zone, name="time-zone"),
    path("account/tokens/", accounts.tokens, name="tokens"),
    path("account/tokens/<str:pk>/revoke/", accounts.revoke_token, name="token-revoke"),
    path("people/", accounts.people, name="people"),
    path("people/grants/", grants.show_grants, name="grants"),
    path("people/grants/<int:pk>/take/", grants.take_grant, name="grant-take"),
    path("people/<int:pk>/", accounts.person, name="person"),
    path("people/<int:pk>/role/", accounts.set_role, name="person-role"),
    path("people/<int:pk>/tokens/<str:key>/revoke/", accounts.revoke_token_of, name="person-token"),
    *(
        path(
            f"people/<int:pk>/{change}/",
            accounts.change_access,
            {"change": change},
            name=f"person-{change}",
        )
        for change in ("activate", "deactivate", "unlock", "end", "remove-codes")
    ),
    path("search/", search.search, name="search"),
    path("help/", search.show_help, name="help"),
]
