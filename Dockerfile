# scheduld as an image: docs/operations.md says how to run it.
#   docker build -t scheduld .
#   docker build -t scheduld --build-arg PYTHON=3.13-slim .
ARG PYTHON=3.11-slim

FROM python:${PYTHON} AS build
RUN python3 -m venv /opt/scheduld
WORKDIR /src
COPY . .
RUN /opt/scheduld/bin/pip install --no-cache-dir --no-compile '.[http]'

FROM python:${PYTHON}
RUN useradd --system --uid 10001 --home-dir /var/lib/scheduld --create-home scheduld \
    && chmod 700 /var/lib/scheduld
COPY --from=build /opt/scheduld /opt/scheduld
COPY --chmod=755 scripts/image-health /opt/scheduld/bin/
ENV PATH=/opt/scheduld/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SCHEDULD_CONFIG=/etc/scheduld/scheduld.toml \
    STATE_DIRECTORY=/var/lib/scheduld
USER 10001
WORKDIR /var/lib/scheduld
VOLUME /var/lib/scheduld
STOPSIGNAL SIGTERM
# Redis answers, and the daemon here is alive. A daemon that is stuck also ends by itself.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
    CMD ["/opt/scheduld/bin/image-health"]
# Exec form: the daemon is process 1 and gets SIGTERM itself.
ENTRYPOINT ["scheduld"]
CMD ["run"]
