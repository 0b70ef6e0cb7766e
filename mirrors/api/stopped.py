"""What REST says of a flow's partitions that stopped alone, and of the records behind them."""

from __future__ import annotations

from rest_framework import serializers

from mirrors.api.shapes import StrictModelSerializer
from mirrors.models import Flow
from mirrors.models.stopped import Stopped, stopped_of


class StoppedSerializer(StrictModelSerializer):
    stopped_partitions = serializers.SerializerMethodField()
    waiting_records = serializers.SerializerMethodField()
    _known: dict[int, Stopped] | None = None

    def get_stopped_partitions(self, flow: Flow) -> int:
        """Those that stopped alone: a refused record, a gap."""
        return self._stopped(flow).partitions

    def get_waiting_records(self, flow: Flow) -> int | None:
        """Records behind them; none is skipped. Null while an end is not known."""
        stopped = self._stopped(flow)
        return None if stopped.unknown else stopped.waiting

    def _stopped(self, flow: Flow) -> Stopped:
        """Asked once for all flows of an answer."""
        if self._known is None:
            many = isinstance(self.parent, serializers.ListSerializer)
            rows = self.parent.instance if many else [flow]
            self._known = stopped_of([row.pk for row in rows or ()])
        return self._known.get(flow.pk, Stopped())
