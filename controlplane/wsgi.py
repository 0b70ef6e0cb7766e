"""The WSGI application: `gunicorn controlplane.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

from controlplane.memory import settle

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
application = get_wsgi_application()
settle()
