# The worker. The library goes in as its wheel; workflows, activities and worker run from /app.

FROM python:3.13.16-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
RUN python -m venv /opt/durable-context
COPY requirements.build.lock requirements.worker.lock ./
RUN pip install --require-hashes --requirement requirements.build.lock \
    && /opt/durable-context/bin/pip install --require-hashes --requirement requirements.worker.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/durable-context/bin/pip install --no-deps --no-index dist/*.whl

FROM python:3.13.16-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin durable-context \
    && install -d -o durable-context -m 0700 /var/lib/durable-context/artifacts
COPY --from=build /opt/durable-context /opt/durable-context
WORKDIR /app
COPY workflows workflows
COPY activities activities
COPY worker worker
ENV PATH=/opt/durable-context/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    DURABLE_CONTEXT_HEALTH_ADDRESS=0.0.0.0:8080
USER durable-context
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/ready', timeout=4)"]
CMD ["python", "-m", "worker"]
