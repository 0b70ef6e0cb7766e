"""The Django admin site: users, groups and tokens, for the role admin."""

from django.contrib.admin import AdminSite
from django.http import HttpRequest

from mirrors.models import Role, role_of


class RoleAdminSite(AdminSite):
    site_header = site_title = "Understudy"
    index_title = "Users and tokens"

    def has_permission(self, request: HttpRequest) -> bool:
        return role_of(request.user) >= Role.ADMIN
