"""Addresses of what is seen: the overview, the charts of a flow."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from monitoring.charts import CHARTS
from monitoring.views import charts, overview


class ChartConverter(StringConverter):
    """The name of a chart."""

    regex = "|".join(CHARTS)


register_converter(ChartConverter, "chart")

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("flows/<int:pk>/charts/", charts.show_charts, name="flow-charts"),
    path("flows/<int:pk>/charts/<chart:chart>/", charts.figure, name="flow-figure"),
]
