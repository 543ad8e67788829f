# Two images:
#   docker build --build-arg REVISION=$(git rev-parse HEAD) -t kafka-eos-exporter:VERSION .
#   docker build --target spark -t kafka-eos-exporter:VERSION-spark .     # history and audit: with Java and Spark
# Both run as uid 10618 with a read-only root; the agent writes to /var/lib/kafka-eos-exporter, the jobs to /tmp too.

# A tag may move; a digest does not: --build-arg BASE=python:3.11.14-slim-bookworm@sha256:...
ARG BASE=python:3.11.14-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
# Whatever is installed is what was locked, byte by byte: `make lock` writes these files.
COPY docker/requirements.txt docker/requirements-build.txt docker/
RUN pip install --no-cache-dir --disable-pip-version-check --only-binary :all: --require-hashes \
        -r docker/requirements-build.txt
COPY LICENSE README.md pyproject.toml ./
COPY alerts alerts
COPY dashboards dashboards
COPY exporter exporter
ARG REVISION=unknown
RUN echo "$REVISION" > exporter/REVISION \
    && pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/kafka-eos-exporter
# Wheels only: nothing is compiled, so no compiler is needed.
RUN pip --python /opt/kafka-eos-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
        --only-binary :all: --require-hashes -r docker/requirements.txt \
    && pip --python /opt/kafka-eos-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
        --no-index --no-deps /wheels/*.whl

FROM ${BASE} AS runtime
LABEL org.opencontainers.image.title="kafka-eos-exporter" \
      org.opencontainers.image.description="Observability exporter and alerting agent for exactly-once (EOS) on Kafka" \
      org.opencontainers.image.licenses="Apache-2.0"
# Whoever gets into the container finds no tool to install more.
RUN rm -rf /usr/local/lib/python3.11/site-packages/pip* /usr/local/lib/python3.11/ensurepip /usr/local/bin/pip* \
    && groupadd --gid 10618 eos \
    && useradd --uid 10618 --gid eos --no-create-home --home-dir /tmp --shell /usr/sbin/nologin eos \
    && install -d -o eos -g eos -m 0750 /var/lib/kafka-eos-exporter
ENV PATH=/opt/kafka-eos-exporter/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
ENTRYPOINT ["kafka-eos-exporter"]

FROM build AS build-spark
# pyspark is published as source only, and needs no compiler either.
COPY docker/requirements-spark.txt docker/
RUN pip --python /opt/kafka-eos-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
        --only-binary :all: --require-hashes -r docker/requirements-build.txt \
    && pip --python /opt/kafka-eos-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
        --no-build-isolation --only-binary :all: --no-binary pyspark --require-hashes -r docker/requirements-spark.txt

FROM runtime AS spark
# The base image pins Debian's release; its security updates are wanted.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-spark /opt/kafka-eos-exporter /opt/kafka-eos-exporter
# The connectors for Kafka and PostgreSQL, so that a job that spark-submit starts needs no repository.
RUN packages=$(python -c "from exporter.jobs.session import *; print(kafka_connector(), POSTGRESQL, sep=',')") \
    && excluded=$(python -c "from exporter.jobs.session import EXCLUDED_JARS; print(','.join(EXCLUDED_JARS))") \
    && jars=$(python -c "import pyspark; print(pyspark.__path__[0])")/jars \
    && touch /tmp/nothing.py \
    && spark-submit --master 'local[1]' --conf spark.jars.ivy=/tmp/ivy --packages "$packages" \
        --exclude-packages "$excluded" /tmp/nothing.py \
    && cp /tmp/ivy/jars/org.apache.kafka_* /tmp/ivy/jars/org.apache.spark_* \
        /tmp/ivy/jars/org.apache.commons_commons-pool2-* /tmp/ivy/jars/org.postgresql_* "$jars" \
    && rm -rf /tmp/ivy /tmp/nothing.py
COPY docker/spark-entrypoint /usr/local/bin/
COPY docker/job.py /opt/kafka-eos-exporter/
ENV SPARK_LOCAL_DIRS=/tmp
# Spark makes its folder of artifacts in the working directory, and the root is read-only.
WORKDIR /tmp
ENTRYPOINT ["spark-entrypoint"]
ARG REVISION=unknown
LABEL org.opencontainers.image.revision="$REVISION"
HEALTHCHECK NONE
USER 10618:10618
CMD ["--help"]

# The last stage is what `docker build .` makes.
FROM runtime AS agent
COPY --from=build /opt/kafka-eos-exporter /opt/kafka-eos-exporter
# The base has no bytecode of the standard library: without this, each start and each health check compiles it.
RUN PYTHONDONTWRITEBYTECODE='' python -c "from exporter.agent import clusters, composition, engine_sources, jvm_sources, receivers; \
import exporter.commands.run, exporter.standalone.health, jinja2, requests"
ARG REVISION=unknown
LABEL org.opencontainers.image.revision="$REVISION"
EXPOSE 10618
STOPSIGNAL SIGTERM
# It asks where process 1 listens: port, TLS and users are those of the settings.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-m", "exporter.standalone.health"]
USER 10618:10618
CMD ["run", "--state.dir=/var/lib/kafka-eos-exporter"]
