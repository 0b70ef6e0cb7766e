"""Addresses of what is seen: the overview, later lag, alerts and dashboards."""

from django.urls import path

from monitoring import views

urlpatterns = [path("", views.overview, name="overview")]
