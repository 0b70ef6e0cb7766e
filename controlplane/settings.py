"""Django settings of the control plane, read with the helpers of `environment`.

Variables start with UNDERSTUDY_, except DATABASE_URL and REDIS_URL, which platforms set.
"""

from __future__ import annotations

import secrets
import socket
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from controlplane.environment import (
    database,
    env_bool,
    env_float,
    env_int,
    env_list,
    env_secret,
    env_str,
    group_roles,
    largest_body,
    origin_of,
)
from controlplane.garbage_collection import collect_less_often_at_start
from controlplane.redaction import logging_settings
from mirrors.installation import resource_directory, state_directory

collect_less_often_at_start()

# What the program writes by default, and what it reads: templates, runbooks.
BASE_DIR = state_directory()
RESOURCE_DIR = resource_directory()

# --- deployment ---------------------------------------------------------------------------------

DEBUG = env_bool("UNDERSTUDY_DEBUG")
# Without one, the process generates a key, so a restart ends all sessions (see checks.py).
SECRET_KEY_IS_SET = bool(env_secret("UNDERSTUDY_SECRET_KEY"))
SECRET_KEY = env_secret("UNDERSTUDY_SECRET_KEY") or secrets.token_urlsafe(48)
ALLOWED_HOSTS = env_list("UNDERSTUDY_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("UNDERSTUDY_ORIGINS")
HTTPS = env_bool("UNDERSTUDY_HTTPS")

# The largest body of a request, in bytes.
UNDERSTUDY_MAX_BODY = largest_body()
# Sign-ins per minute, for each address and for each name, in each web process.
UNDERSTUDY_LOGINS_PER_MINUTE = env_int("UNDERSTUDY_LOGINS_PER_MINUTE", 20)
# Uploads stay in memory: an upload that is written to disk would fill it.
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.MemoryFileUploadHandler"]
FILE_UPLOAD_MAX_MEMORY_SIZE = DATA_UPLOAD_MAX_MEMORY_SIZE = UNDERSTUDY_MAX_BODY

# --- runners ------------------------------------------------------------------------------------

# One directory per runner: lock, log, job specs, status files.
RUNNER_ROOT = Path(env_str("UNDERSTUDY_RUNNER_ROOT") or BASE_DIR / ".runners")
# The name of this host as supervisor of runners; containers need a stable one.
UNDERSTUDY_HOST = env_str("UNDERSTUDY_HOST") or socket.gethostname()
UNDERSTUDY_RUNNER_NAME = env_str("UNDERSTUDY_RUNNER_NAME", "default")
UNDERSTUDY_RUNNER_MASTER = env_str("UNDERSTUDY_RUNNER_MASTER", "local[256,4]")
UNDERSTUDY_RUNNER_SLOTS = env_int("UNDERSTUDY_RUNNER_SLOTS", 256)
UNDERSTUDY_READ_SECONDS = env_float("UNDERSTUDY_READ_SECONDS", 0.7)
# Connection tests per user and minute.
UNDERSTUDY_TESTS_PER_MINUTE = env_int("UNDERSTUDY_TESTS_PER_MINUTE", 20)

# --- drills and their certificates ---------------------------------------------------------------

# Ed25519 in PEM. Without it, the first certificate generates a key in the file below.
UNDERSTUDY_SIGNING_KEY = env_secret("UNDERSTUDY_SIGNING_KEY")
UNDERSTUDY_SIGNING_KEY_PATH = Path(
    env_str("UNDERSTUDY_SIGNING_KEY_PATH") or BASE_DIR / ".signing" / "ed25519.pem"
)
# How long a passed drill is valid, and how long the rows of a simulation are kept.
UNDERSTUDY_PROVEN_DAYS = env_int("UNDERSTUDY_PROVEN_DAYS", 30)
UNDERSTUDY_EVIDENCE_DAYS = env_int("UNDERSTUDY_EVIDENCE_DAYS", 90)
# Certificate verifications per client address and minute, per web process.
UNDERSTUDY_VERIFICATIONS_PER_MINUTE = env_int("UNDERSTUDY_VERIFICATIONS_PER_MINUTE", 60)

# --- the audit log --------------------------------------------------------------------------------

# How long its entries are kept.
UNDERSTUDY_AUDIT_DAYS = env_int("UNDERSTUDY_AUDIT_DAYS", 400)
# Addresses or networks of proxies whose X-Forwarded-For is believed.
UNDERSTUDY_TRUSTED_PROXIES = env_list("UNDERSTUDY_TRUSTED_PROXIES")

# --- failovers ----------------------------------------------------------------------------------

# Maximum age of a simulation from which a switchover or failover may start.
UNDERSTUDY_FAILOVER_FRESH_MINUTES = env_int("UNDERSTUDY_FAILOVER_FRESH_MINUTES", 15)
# Whether a second person must approve a run; a flow may only add the rule.
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
EMAIL_PORT = env_int("UNDERSTUDY_SMTP_PORT", 25)
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
    "controlplane.web.middleware.RequestIdMiddleware",
    "controlplane.web.request_origin.OriginMiddleware",
    "controlplane.web.limits.LimitsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "controlplane.database.stale_page_cache.StalePageMiddleware",
    "controlplane.database.timeouts.DatabaseTimeoutMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "controlplane.single_sign_on.middleware.SignInMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "controlplane.web.middleware.RoleMiddleware",
    "controlplane.web.middleware.FlowNameMiddleware",
    "controlplane.web.middleware.TimeZoneMiddleware",
    "controlplane.web.middleware.VerbAddressMiddleware",
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
        "DIRS": [RESOURCE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "controlplane.web.middleware.role",
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
    "controlplane.web.limits.NameLimit",
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
    "controlplane.single_sign_on.views.Backend",
]
# --- sign-in at an identity provider, or behind a proxy ---
# The issuer exactly as the provider names it; empty: no such sign-in.
UNDERSTUDY_OIDC_ISSUER = env_str("UNDERSTUDY_OIDC_ISSUER")
UNDERSTUDY_OIDC_NAME_CLAIM = env_str("UNDERSTUDY_OIDC_NAME_CLAIM", "preferred_username")
UNDERSTUDY_OIDC_GROUPS_CLAIM = env_str("UNDERSTUDY_OIDC_GROUPS_CLAIM", "groups")
# How long people keep access while the provider does not respond.
UNDERSTUDY_OIDC_GRACE_MINUTES = env_int("UNDERSTUDY_OIDC_GRACE_MINUTES", 60)
# GROUP=ROLE or GROUP=ROLE+ROLE, separated by commas.
UNDERSTUDY_GROUP_ROLES = group_roles()
# Headers in which a trusted proxy names the person and the groups.
UNDERSTUDY_PROXY_LOGIN_HEADER = env_str("UNDERSTUDY_PROXY_LOGIN_HEADER")
UNDERSTUDY_PROXY_GROUPS_HEADER = env_str("UNDERSTUDY_PROXY_GROUPS_HEADER")
OIDC_RP_CLIENT_ID = env_str("UNDERSTUDY_OIDC_CLIENT_ID")
OIDC_RP_CLIENT_SECRET = env_secret("UNDERSTUDY_OIDC_CLIENT_SECRET")
OIDC_RP_SCOPES = env_str("UNDERSTUDY_OIDC_SCOPES", "openid profile email offline_access")
OIDC_RP_SIGN_ALGO = env_str("UNDERSTUDY_OIDC_ALGORITHM", "RS256")
OIDC_USE_PKCE = True
OIDC_TIMEOUT = 5
OIDC_TOKEN_USE_BASIC_AUTH = False
_VALIDATION = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": f"{_VALIDATION}.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {
        "NAME": f"{_VALIDATION}.UserAttributeSimilarityValidator",
        "OPTIONS": {"user_attributes": ("username", "email", "first_name", "last_name")},
    },
    {"NAME": f"{_VALIDATION}.CommonPasswordValidator"},
    {"NAME": f"{_VALIDATION}.NumericPasswordValidator"},
    {"NAME": "mirrors.services.users.ProductNameValidator"},
]
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False
AXES_CLIENT_IP_CALLABLE = "controlplane.web.request_origin.address_of"
AXES_LOCKOUT_TEMPLATE = "registration/locked.html"
REST_KNOX = {"TOKEN_TTL": timedelta(days=90), "AUTH_HEADER_PREFIX": "Token"}
KNOX_TOKEN_MODEL = "knox.AuthToken"  # noqa: S105 (a name)

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
        # A sign-out ends with the page of the provider.
        "form-action": [SELF, *origin_of(UNDERSTUDY_OIDC_ISSUER)],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}

# --- REST ---------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.single_sign_on.middleware.CheckedTokens",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["mirrors.api.access.authentication.RolePermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.api.json_parser.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "controlplane.api.errors.Pagination",
    "DEFAULT_FILTER_BACKENDS": [
        "mirrors.api.base.VisibleRows",
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
    "SERVE_PERMISSIONS": ["mirrors.api.access.authentication.RolePermission"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "controlplane.api.examples.add_examples",
        "controlplane.api.responses.complete",
        "controlplane.api.response_examples.add_response_examples",
    ],
    "ENUM_NAME_OVERRIDES": {
        "ReadingStateEnum": "mirrors.models.base.READING_STATES",
        "DesiredStateEnum": "mirrors.domain.states.flows.DESIRED.choices",
        "FailoverKindEnum": "mirrors.models.failover.FailoverKind",
        "FailoverStateEnum": "mirrors.domain.states.runs.FAILOVER_RUN.choices",
        "AccountStateEnum": "mirrors.api.account.STATES",
        "CertaintyEnum": "mirrors.api.account.CERTAINTIES",
        "SideEnum": "mirrors.api.flows.progress.SIDES",
        "DeclarationKindEnum": "controlplane.declarations.kinds.NAMES",
        "RoleEnum": "mirrors.api.access.people.ROLE_CHOICES",
        "GrantRoleEnum": "mirrors.models.access.grants.ROLE_CHOICES",
        "TokenScopeEnum": "mirrors.models.access.roles.Scope",
        "GrantScopeEnum": "mirrors.models.access.grants.SCOPE_CHOICES",
    },
}

# --- the queue, the log -------------------------------------------------------------------------

# Celery would close the connections to the database after each task; see `renew_connections`.
CELERY_DB_REUSE_MAX = sys.maxsize
CELERY_BROKER_URL = REDIS_URL = env_secret("REDIS_URL") or "redis://127.0.0.1:6379/0"

LOGGING = logging_settings(env_str("UNDERSTUDY_LOG_LEVEL", "INFO"))
