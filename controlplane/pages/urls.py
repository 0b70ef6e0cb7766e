"""URLs of accounts, search and help."""

from django.contrib.auth import views as auth
from django.urls import path

from controlplane.pages import accounts, search
from mirrors.models import Role, needs

urlpatterns = [
    path("login/", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", needs(Role.NONE)(auth.LogoutView.as_view()), name="logout"),
    path(
        "account/password/",
        needs(Role.NONE)(auth.PasswordChangeView.as_view()),
        name="password_change",
    ),
    path(
        "account/password/done/",
        needs(Role.NONE)(auth.PasswordChangeDoneView.as_view()),
        name="password_change_done",
    ),
    path("account/tokens/", accounts.tokens, name="tokens"),
    path("account/tokens/<str:pk>/revoke/", accounts.revoke_token, name="token-revoke"),
    path("people/", accounts.people, name="people"),
    path("people/<int:pk>/role/", accounts.set_role, name="person-role"),
    path("search/", search.search, name="search"),
    path("help/", search.show_help, name="help"),
]
