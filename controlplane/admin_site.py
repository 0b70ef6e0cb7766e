"""The Django admin site, for superusers; admins use the page People."""

from django.contrib.admin import AdminSite
from django.http import HttpRequest


class RoleAdminSite(AdminSite):
    site_header = site_title = "Understudy"
    index_title = "Users and tokens"

    def has_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active and request.user.is_superuser
