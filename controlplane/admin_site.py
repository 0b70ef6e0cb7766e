"""The admin site: people, groups and tokens, for people with the role admin."""

from django.contrib.admin import AdminSite
from django.http import HttpRequest

from mirrors.models import Role, role_of


class RoleAdminSite(AdminSite):
    site_header = site_title = "Understudy"
    index_title = "People and tokens"

    def has_permission(self, request: HttpRequest) -> bool:
        return role_of(request.user) >= Role.ADMIN
