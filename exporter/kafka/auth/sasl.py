"""SASL over Kafka's framing (KIP-152): one of kafka-python's mechanisms, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from exporter.kafka.auth.oauth import TokenProvider
from exporter.kafka.faults import error_code

UNSUPPORTED_SASL_MECHANISM = 33

Exchange = Callable[[SaslHandshakeRequest | SaslAuthenticateRequest], Any]
"""Sends a request and gives its response."""


class SaslRefusedError(Exception):
    """The broker refused authentication. The text has the broker's message and no secret."""


def authenticate(exchange: Exchange, mechanism_name: str, settings: Mapping[str, object], remedy: str) -> float:
    """Authenticate. Returns the seconds until the broker ends the session (KIP-368), 0 for never.

    ``settings`` are kafka-python's keywords; ``remedy`` is what to check when they are refused. Raises
    SaslRefusedError, TokenError, and what ``exchange`` raises.
    """
    # Only a listener with SASL needs them, and their package imports kafka-python's client.
    from kafka.net.sasl import get_sasl_mechanism  # noqa: PLC0415
    from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415

    AbstractTokenProvider.register(TokenProvider)  # not its base class: settings are read without kafka-python
    handshake = exchange(SaslHandshakeRequest(mechanism=mechanism_name))
    if handshake.error_code == UNSUPPORTED_SASL_MECHANISM:
        offers = ", ".join(handshake.mechanisms) or "none"
        raise SaslRefusedError(f"the listener does not offer {mechanism_name} but {offers}: check sasl.mechanism")
    if handshake.error_code:
        error = error_code(handshake.error_code)
        raise SaslRefusedError(f"{mechanism_name}: {error.name}: {error.advice}")
    user = settings.get("sasl_plain_username")
    who = f"{mechanism_name} as {user}" if user else mechanism_name
    lifetime = 0
    try:
        mechanism = get_sasl_mechanism(mechanism_name)(**settings)
        while not mechanism.is_done():
            answer = exchange(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()))
            if answer.error_code:
                raise SaslRefusedError(f"{who}: {answer.error_message or 'refused'}: {remedy}")
            mechanism.receive(answer.auth_bytes)
            lifetime = answer.session_lifetime_ms or 0
    except (ValueError, KeyError, TypeError):
        # SCRAM: the broker could not prove that it has the password.
        raise SaslRefusedError(f"{who}: the broker's answer does not fit: is it the right cluster?") from None
    if not mechanism.is_authenticated():
        raise SaslRefusedError(f"{who} did not succeed")
    return lifetime / 1000
