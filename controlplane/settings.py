"""Django settings of the control plane, read with the helpers of `environment`.

Variables start with UNDERSTUDY_, except DATABASE_URL and REDIS_URL, which platforms set.
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

# --- deployment ---------------------------------------------------------------------------------

DEBUG = env_bool("UNDERSTUDY_DEBUG")
# Without one, the process generates a key, so a restart ends all sessions (see checks.py).
SECRET_KEY_IS_SET = bool(env_secret("UNDERSTUDY_SECRET_KEY"))
SECRET_KEY = env_secret("UNDERSTUDY_SECRET_KEY") or secrets.token_urlsafe(48)
ALLOWED_HOSTS = env_list("UNDERSTUDY_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("UNDERSTUDY_ORIGINS")
HTTPS = env_bool("UNDERSTUDY_HTTPS")

# --- runners ------------------------------------------------------------------------------------

# One directory per runner: lock, log, job specs, status files.
RUNNER_ROOT = Path(env_str("UNDERSTUDY_RUNNER_ROOT") or BASE_DIR / ".runners")
# The name of this host as supervisor of runners; containers need a stable one.
UNDERSTUDY_HOST = env_str("UNDERSTUDY_HOST") or socket.gethostname()
UNDERSTUDY_RUNNER_NAME = env_str("UNDERSTUDY_RUNNER_NAME", "default")
UNDERSTUDY_RUNNER_MASTER = env_str("UNDERSTUDY_RUNNER_MASTER", "local[256,4]")
UNDERSTUDY_RUNNER_SLOTS = int(env_str("UNDERSTUDY_RUNNER_SLOTS", "256"))
UNDERSTUDY_READ_SECONDS = float(env_str("UNDERSTUDY_READ_SECONDS", "0.7"))
# Connection tests per user and minute.
UNDERSTUDY_TESTS_PER_MINUTE = int(env_str("UNDERSTUDY_TESTS_PER_MINUTE", "20"))

# --- drills and their certificates ---------------------------------------------------------------

# Ed25519 in PEM. Without it, the first certificate generates a key in the file below.
UNDERSTUDY_SIGNING_KEY = env_secret("UNDERSTUDY_SIGNING_KEY")
UNDERSTUDY_SIGNING_KEY_PATH = Path(
    env_str("UNDERSTUDY_SIGNING_KEY_PATH") or BASE_DIR / ".signing" / "ed25519.pem"
)
# How long a passed drill is valid, and how long the rows of a simulation are kept.
UNDERSTUDY_PROVEN_DAYS = int(env_str("UNDERSTUDY_PROVEN_DAYS", "30"))
UNDERSTUDY_EVIDENCE_DAYS = int(env_str("UNDERSTUDY_EVIDENCE_DAYS", "90"))
# Certificate verifications per client address and minute, per web process.
UNDERSTUDY_VERIFICATIONS_PER_MINUTE = int(env_str("UNDERSTUDY_VERIFICATIONS_PER_MINUTE", "60"))

# --- failovers ----------------------------------------------------------------------------------

# Maximum age of a simulation from which a switchover or failover may start.
UNDERSTUDY_FAILOVER_FRESH_MINUTES = int(env_str("UNDERSTUDY_FAILOVER_FRESH_MINUTES", "15"))
# Whether a second person must approve a run; a flow may override it.
UNDERSTUDY_FAILOVER_SECOND_PERSON = env_bool("UNDERSTUDY_FAILOVER_SECOND_PERSON")
# Commands that hooks may run: `name=/path`, separated by commas. Nothing else is run.
UNDERSTUDY_FAILOVER_COMMANDS = {
    name.strip(): path.strip()
    for name, _, path in (part.partition("=") for part in env_list("UNDERSTUDY_FAILOVER_COMMANDS"))
    if path.strip().startswith("/")
}

# --- alerts -------------------------------------------------------------------------------------

# Base URL of these pages, for links in alert messages; empty for no links.
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
    "controlplane.apps.UsersAdminConfig",
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
    "controlplane.database.stale_page_cache.StalePageMiddleware",
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
# Without collected files (demo, tests, development), serve from the source folders.
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = DEBUG or TESTING or not STATIC_ROOT.is_dir()
_HASHED = "whitenoise.storage.CompressedManifestStaticFilesStorage"
_PLAIN = "django.contrib.staticfiles.storage.StaticFilesStorage"
STORAGES = {"staticfiles": {"BACKEND": _PLAIN if WHITENOISE_USE_FINDERS else _HASHED}}

# --- users, tokens, headers ---------------------------------------------------------------------

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
# Cookies ignore ports, so each of several demos on one machine needs its own cookie name.
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
    "DEFAULT_PAGINATION_CLASS": "controlplane.api.errors.Pagination",
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
    "DESCRIPTION": "Kafka cross-cluster replication with rehearsed failover.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["mirrors.api.authentication.RolePermission"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "DesiredStateEnum": "mirrors.domain.states.flows.DESIRED.choices",
        "FailoverKindEnum": "mirrors.models.failover.FailoverKind",
        "FailoverStateEnum": "mirrors.domain.states.runs.FAILOVER_RUN.choices",
        "AccountStateEnum": "mirrors.api.account.STATES",
        "CertaintyEnum": "mirrors.api.account.CERTAINTIES",
    },
}

# --- the queue, the log -------------------------------------------------------------------------

CELERY_BROKER_URL = REDIS_URL = env_secret("REDIS_URL") or "redis://127.0.0.1:6379/0"

LOGGING = logging_settings(env_str("UNDERSTUDY_LOG_LEVEL", "INFO"))
