"""The WSGI application: `gunicorn --preload controlplane.wsgi`.

What is loaded here is loaded once and shared by all processes that gunicorn forks. So nothing here
may open a connection or start a thread.
"""

import os

from django.core.wsgi import get_wsgi_application

from controlplane.garbage_collection import settle

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
application = get_wsgi_application()
settle()
