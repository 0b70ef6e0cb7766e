"""Sign-in with name and password, and a one-time code where the account has them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from controlplane.single_sign_on import provider
from mirrors.domain.errors import UnderstudyError
from mirrors.models import needs
from mirrors.services import one_time_codes
from mirrors.views.page import render_page


class SignInForm(AuthenticationForm):
    """A wrong code counts as a failed sign-in."""

    code = forms.CharField(required=False, max_length=40)
    # For the page: the password was right.
    code_is_missing = False

    def confirm_login_allowed(self, user: Any) -> None:
        super().confirm_login_allowed(user)
        if one_time_codes.check(user, self.cleaned_data.get("code") or ""):
            return
        if self.cleaned_data.get("code"):
            credentials = {"username": user.get_username()}
            user_login_failed.send(__name__, credentials=credentials, request=self.request)
        self.code_is_missing = True
        raise forms.ValidationError(
            "This account needs the one-time code of this moment.", code="one_time_code"
        )


class SignIn(LoginView):
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get_context_data(self, **given: Any) -> dict[str, Any]:
        return super().get_context_data(single_sign_on=provider.is_configured(), **given)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(None)
def one_time_code(request: HttpRequest) -> HttpResponse:
    """Begin, and confirm with a first code. The key and recovery codes are shown once."""
    user = User.objects.get(pk=str(request.user.pk))
    context: dict[str, Any] = {"key": "", "address": "", "recovery_codes": []}
    status = 200
    try:
        if request.method == "POST" and "renew" in request.POST:
            code = request.POST.get("code", "")
            context["recovery_codes"] = one_time_codes.renew_recovery_codes(user, code)
        elif request.method == "POST" and "code" in request.POST:
            context["recovery_codes"] = one_time_codes.confirm(user, request.POST["code"])
            messages.success(request, "From now on each sign-in needs a one-time code.")
        elif request.method == "POST":
            context["key"], context["address"] = one_time_codes.begin(user)
    except UnderstudyError as error:
        messages.error(request, error.message)
        status = 422
    context["is_on"] = one_time_codes.is_on(user)
    context["left"] = one_time_codes.recovery_codes_left(user)
    return render_page(
        request, "controlplane/one_time_code.html", context, section="tokens", status=status
    )
