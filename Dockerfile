# requirements.lock holds for Python 3.11 and later; every package in it has a wheel for this one.
FROM python:3.13-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1

RUN python -m venv /opt/venv
ENV PATH="/opt/venv/bin:$PATH"

# Dependencies first: this layer stays cached while only our own code changes.
WORKDIR /src
COPY requirements.lock ./
# The lock is complete: nothing is resolved here, so a newer release cannot break the build.
RUN pip install --no-deps --require-hashes --only-binary :all: -r requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY app ./app
RUN pip install --no-deps . && pip check


FROM python:3.13-slim-bookworm

# A fixed id, so that the owner of a mounted folder can be set on the host.
RUN groupadd --gid 10001 chat-proxy \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /app \
        --shell /usr/sbin/nologin chat-proxy \
    && install --directory --owner=10001 --group=10001 --mode=0700 /app/data

COPY --from=build /opt/venv /opt/venv

# The image listens on all addresses; the published port decides who can reach it. Data go to the
# volume, not to a home folder.
ENV PATH="/opt/venv/bin:$PATH" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    CHAT_PROXY_SERVER_HOST=0.0.0.0 \
    CHAT_PROXY_STORE_URL=sqlite:////app/data/chat-proxy.db \
    CHAT_PROXY_ARCHIVE_DIR=/app/data

WORKDIR /app
COPY configs ./configs

# As a number: Kubernetes' runAsNonRoot cannot resolve names.
USER 10001:10001
VOLUME /app/data
EXPOSE 8100
STOPSIGNAL SIGTERM

# With Python, because the image has no curl; without any HTTP_PROXY, which is meant for the upstream.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as web; web.build_opener(web.ProxyHandler({})).open('http://localhost:' + (os.environ.get('CHAT_PROXY_SERVER_PORT') or '8100') + '/healthz', timeout=4)"]

# Without a shell, so that SIGTERM reaches the proxy and running answers can finish.
ENTRYPOINT ["chat-proxy"]
CMD ["serve"]
