"""IAM of Amazon MSK: tokens that AWS's own signer makes, taken by the brokers as OAUTHBEARER.

The Java mechanism AWS_MSK_IAM uses the same port, 9098: both mechanisms send a signed URL. The signer finds credentials
as every AWS client does: environment, profile, web identity, pod identity, instance metadata.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from importlib.util import find_spec

from exporter.kafka.auth.oauth import TokenError, TokenProvider
from exporter.model import Reason

MECHANISM = "AWS_MSK_IAM"
REMEDY = "does the IAM policy allow kafka-cluster:Connect on this cluster?"

_REGION = re.compile(r"\.kafka(?:-serverless)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::\d+)?$")

Sign = Callable[[str], tuple[str, int]]
"""From a region to a token and the Unix time, in milliseconds, at which it expires. Raises TokenError."""


def installed() -> bool:
    """Return whether the signer is installed. It is an extra because of its size."""
    return find_spec("aws_msk_iam_sasl_signer") is not None


def region_of(bootstrap_servers: str) -> str | None:
    """The region in a broker's name, otherwise of the environment. None without either."""
    for server in bootstrap_servers.split(","):
        if found := _REGION.search(server.strip()):
            return found["region"]
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def iam_tokens(bootstrap_servers: str, sign: Sign | None = None) -> TokenProvider:
    """Tokens for the brokers of this cluster."""
    region = region_of(bootstrap_servers) or ""

    def ask(_: float) -> tuple[str, float]:
        token, expires = (sign or _sign)(region)
        return token, expires / 1000 - time.time()

    return TokenProvider(ask, REMEDY)


def _sign(region: str) -> tuple[str, int]:
    # an extra, and slow to import
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        token, expires = MSKAuthTokenProvider.generate_auth_token(region)
    except (BotoCoreError, ClientError, AttributeError, ValueError, OSError) as error:
        # AttributeError is the signer's result without credentials. Texts of other exceptions may hold anything: only
        # the class is reported.
        text = f"no AWS credentials ({type(error).__name__}): does this host or pod have a role?"
        raise TokenError(Reason.AUTHENTICATION, text) from None
    return str(token), int(expires)
