"""Settings of the control plane: one file, every value through the helpers of `environment`.

Names start with UNDERSTUDY_, except DATABASE_URL and REDIS_URL, which every platform knows.
"""

from __future__ import annotations

import secrets
import socket
import sys
from datetime import timedelta
from pathlib import Path

from csp.constants import NONE, SELF

from controlplane.environment import database, env_bool, env_list, env_secret, env_str
from controlplane.redaction import logging_settings

BASE_DIR = Path(__file__).resolve().parent.parent

# --- who we are ---------------------------------------------------------------------------------

DEBUG = env_bool("UNDERSTUDY_DEBUG")
# Without one the process makes its own, so sessions end with it; checks.py says so.
SECRET_KEY_IS_SET = bool(env_secret("UNDERSTUDY_SECRET_KEY"))
SECRET_KEY = env_secret("UNDERSTUDY_SECRET_KEY") or secrets.token_urlsafe(48)
ALLOWED_HOSTS = env_list("UNDERSTUDY_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("UNDERSTUDY_ORIGINS")
HTTPS = env_bool("UNDERSTUDY_HTTPS")

# --- runners ------------------------------------------------------------------------------------

# One directory per runner: its lock, its log, spec files in, status files out.
RUNNER_ROOT = Path(env_str("UNDERSTUDY_RUNNER_ROOT") or BASE_DIR / ".runners")
# The name under which this machine supervises runners; containers need a stable one.
UNDERSTUDY_HOST = env_str("UNDERSTUDY_HOST") or socket.gethostname()
UNDERSTUDY_RUNNER_NAME = env_str("UNDERSTUDY_RUNNER_NAME", "default")
UNDERSTUDY_RUNNER_MASTER = env_str("UNDERSTUDY_RUNNER_MASTER", "local[256,4]")
UNDERSTUDY_RUNNER_SLOTS = int(env_str("UNDERSTUDY_RUNNER_SLOTS", "256"))
UNDERSTUDY_READ_SECONDS = float(env_str("UNDERSTUDY_READ_SECONDS", "0.7"))  # patience.py
# How many connection tests one person may ask for in a minute.
UNDERSTUDY_TESTS_PER_MINUTE = int(env_str("UNDERSTUDY_TESTS_PER_MINUTE", "20"))

# --- drills and their certificates ---------------------------------------------------------------

# Ed25519 in PEM. Without it the first certificate makes a key in the file below, on its host.
UNDERSTUDY_SIGNING_KEY = env_secret("UNDERSTUDY_SIGNING_KEY")
UNDERSTUDY_SIGNING_KEY_PATH = Path(
    env_str("UNDERSTUDY_SIGNING_KEY_PATH") or BASE_DIR / ".signing" / "ed25519.pem"
)
# So long a drill that passed proves something; so long the rows of a simulation are kept.
UNDERSTUDY_PROVEN_DAYS = int(env_str("UNDERSTUDY_PROVEN_DAYS", "30"))
UNDERSTUDY_EVIDENCE_DAYS = int(env_str("UNDERSTUDY_EVIDENCE_DAYS", "90"))
# How many certificates one address may have verified in a minute, per web process.
UNDERSTUDY_VERIFICATIONS_PER_MINUTE = int(env_str("UNDERSTUDY_VERIFICATIONS_PER_MINUTE", "60"))

# --- failovers ----------------------------------------------------------------------------------

# How old a simulation may be that a switchover or failover is begun from.
UNDERSTUDY_FAILOVER_FRESH_MINUTES = int(env_str("UNDERSTUDY_FAILOVER_FRESH_MINUTES", "15"))
# Whether a second person must approve one, where a flow does not say.
UNDERSTUDY_FAILOVER_SECOND_PERSON = env_bool("UNDERSTUDY_FAILOVER_SECOND_PERSON")
# What a flow's steps may run, `name=/path` separated by commas; nothing else is ever run.
UNDERSTUDY_FAILOVER_COMMANDS = {
    name.strip(): path.strip()
    for name, _, path in (part.partition("=") for part in env_list("UNDERSTUDY_FAILOVER_COMMANDS"))
    if path.strip().startswith("/")
}

# --- alerts -------------------------------------------------------------------------------------

# How people reach these pages, for the links in what is sent; empty: no links.
UNDERSTUDY_URL = env_str("UNDERSTUDY_URL")
EMAIL_HOST = env_str("UNDERSTUDY_SMTP_HOST")
EMAIL_PORT = int(env_str("UNDERSTUDY_SMTP_PORT", "25"))
EMAIL_HOST_USER = env_str("UNDERSTUDY_SMTP_USER")
EMAIL_HOST_PASSWORD = env_secret("UNDERSTUDY_SMTP_PASSWORD")
EMAIL_USE_TLS = env_bool("UNDERSTUDY_SMTP_STARTTLS")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env_str("UNDERSTUDY_SMTP_FROM", "understudy@localhost")

# --- Django -------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "controlplane.apps.ControlPlaneConfig",
    "controlplane.apps.PeopleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "knox",
    "csp",
    "axes",
    "mirrors",
    "monitoring",
]

MIDDLEWARE = [
    "controlplane.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "controlplane.database.stale_page_cache.KeptPagesMiddleware",
    "controlplane.database.timeouts.DatabaseTimeoutMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "controlplane.middleware.RoleMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "controlplane.urls"
WSGI_APPLICATION = "controlplane.wsgi.application"
FORM_RENDERER = "controlplane.form_renderer.Renderer"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": database(env_secret("DATABASE_URL") or f"sqlite:///{BASE_DIR}/db.sqlite3")}

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "controlplane.middleware.role",
                "controlplane.pages.menu.menu",
            ],
        },
    },
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = Path(env_str("UNDERSTUDY_STATIC_ROOT") or BASE_DIR / "staticfiles")
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "controlplane.static_finders.PlotlyFinder",
]
TESTING = "pytest" in sys.modules
# Serve straight from the source folders where nothing was collected (demo, tests, development).
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = DEBUG or TESTING or not STATIC_ROOT.is_dir()
_HASHED = "whitenoise.storage.CompressedManifestStaticFilesStorage"
_PLAIN = "django.contrib.staticfiles.storage.StaticFilesStorage"
STORAGES = {"staticfiles": {"BACKEND": _PLAIN if WHITENOISE_USE_FINDERS else _HASHED}}

# --- people, tokens, headers --------------------------------------------------------------------

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False
AXES_LOCKOUT_TEMPLATE = "registration/locked.html"
REST_KNOX = {"TOKEN_TTL": timedelta(days=90), "AUTH_HEADER_PREFIX": "Token"}

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
# Two demos on one machine differ only by port, which cookies ignore: a name of its own for each.
SESSION_COOKIE_NAME = env_str("UNDERSTUDY_COOKIE_PREFIX", "understudy") + "_session"
CSRF_COOKIE_NAME = env_str("UNDERSTUDY_COOKIE_PREFIX", "understudy") + "_csrf"
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_REFERRER_POLICY = "same-origin"
if env_bool("UNDERSTUDY_BEHIND_PROXY"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "controlplane.api.errors.csrf_failure"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}

# --- REST ---------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "mirrors.api.authentication.Tokens",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["mirrors.api.authentication.RolePermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.api.json_parser.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "controlplane.api.errors.Pages",
    "DEFAULT_FILTER_BACKENDS": [
        "mirrors.api.base.ExactFilter",
        "mirrors.api.base.Search",
        "mirrors.api.base.Ordering",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "controlplane.api.errors.handle_exception",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Understudy",
    "DESCRIPTION": "Kafka cross-cluster replication that rehearses the failover.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["mirrors.api.authentication.RolePermission"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "DesiredStateEnum": "mirrors.models.flows.DesiredState",
        "FailoverKindEnum": "mirrors.models.failover.FailoverKind",
        "FailoverStateEnum": "mirrors.models.failover.FailoverState",
        "AccountStateEnum": "mirrors.api.account.STATES",
        "CertaintyEnum": "mirrors.api.account.CERTAINTIES",
    },
}

# --- the queue, the log -------------------------------------------------------------------------

CELERY_BROKER_URL = REDIS_URL = env_secret("REDIS_URL") or "redis://127.0.0.1:6379/0"

LOGGING = logging_settings(env_str("UNDERSTUDY_LOG_LEVEL", "INFO"))
