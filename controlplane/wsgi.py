"""The WSGI application: `gunicorn --preload controlplane.wsgi`.

Modules are loaded once and shared by all processes that gunicorn forks, so nothing here may open a
connection or start a thread.
"""

import os

from django.core.wsgi import get_wsgi_application

from controlplane.garbage_collection import freeze

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
application = get_wsgi_application()
freeze()
