# One image for every service of docker-compose.yml but PostgreSQL: web, worker with its Spark runner, tasks, watch, beat, the migration,
# and the Kafka and Redis of the example.
# Machine code of the engine is made where a compiler is; the image itself has none.
# Trixie for its OpenSSL 3.5, which encrypts at three times the speed of bookworm's 3.0.
# By digest in production: docs/operations/install/services.md, "Images by digest".
ARG PYTHON_IMAGE=python:3.11-slim-trixie
FROM ${PYTHON_IMAGE} AS compiled

RUN apt-get update \
    && apt-get install -y --no-install-recommends make gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /app
ENV PIP_NO_CACHE_DIR=1
COPY Makefile requirements.txt requirements-dev.txt requirements-install.txt ./
COPY .ci .ci
RUN make runtime
COPY . .
RUN touch .venv/.runtime && mkdir -p .compiled && make compiled

FROM ${PYTHON_IMAGE}

# Java's package links its manual page, and a slim image has no folder for it.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install -y --no-install-recommends make default-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 understudy \
    # A new named volume takes over the owner of the directory that it is mounted on.
    && install -d -o understudy -g understudy /app /data

USER understudy
WORKDIR /app
# Kafka's jars and pip look for their caches here, also where an engine sets no HOME.
ENV HOME=/home/understudy PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1

# The packages first: they change seldom, and then only the layers below are built again.
COPY --chown=understudy:understudy Makefile requirements.txt requirements-install.txt ./
COPY --chown=understudy:understudy .ci .ci
RUN make runtime

COPY --chown=understudy:understudy . .
COPY --from=compiled --chown=understudy:understudy /app/.compiled .compiled
# A fresh checkout's requirements.txt is younger than a cached layer's stamp, and make would install all again.
# The example's Kafka comes from its published jars; fetched here, so that a container starts without a registry.
RUN touch .venv/.runtime && make kafka-jars static

EXPOSE 8000
# tini passes signals on and reaps the detached runner.
ENTRYPOINT ["tini", "--"]
CMD ["make", "run-web"]
