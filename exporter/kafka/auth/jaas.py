"""Java's ``sasl.jaas.config`` as properties: ``LoginModule required username="u" password="p";``."""

from __future__ import annotations

import re

# Possessive, so that the time is linear.
_ENTRY = re.compile(r"(?P<module>[\w.$]++)\s++(?:required|requisite|sufficient|optional)\b(?P<options>.*+)", re.DOTALL)
_OPTION = re.compile(
    r"""\s*+(?P<key>[\w.\-]++)\s*+=\s*+"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*+)"|'(?P<single>(?:[^'\\]|\\.)*+)'|(?P<bare>[^\s;"']++))""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

EXTENSION = "extension_"  # OAuthBearerLoginModule.java; Confluent Cloud's logicalCluster and identityPoolId
_PASSWORD_MODULES = {"PlainLoginModule", "ScramLoginModule"}
_OPTIONS = {
    "PlainLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "ScramLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "IAMLoginModule": {},  # Amazon MSK: credentials are found as by every AWS client
    "OAuthBearerLoginModule": {
        "clientId": "sasl.oauthbearer.client.id",
        "clientSecret": "sasl.oauthbearer.client.secret",
        "scope": "sasl.oauthbearer.scope",
    },
}


def parse_jaas(text: str) -> dict[str, str]:
    """The properties of a JAAS entry. Raises ValueError, whose text holds no value of the entry."""
    entry = _ENTRY.match(text.strip().removesuffix(";"))
    if entry is None:
        raise ValueError('is not of the form: LoginModule required username="..." password="...";')
    module = entry["module"].rpartition(".")[2]
    if module not in _OPTIONS:
        raise ValueError(
            f"the login module {module} is not supported; use PLAIN, SCRAM, OAUTHBEARER or TLS client certificates"
        )
    options = _options(entry["options"])
    found = {name: options[key] for key, name in _OPTIONS[module].items() if key in options}
    if module == "IAMLoginModule" and options.keys() - {"awsDebugCreds"}:
        raise ValueError("has options of IAMLoginModule, which are not read: set AWS_PROFILE, or give this host a role")
    extensions = {key.removeprefix(EXTENSION): text for key, text in options.items() if key.startswith(EXTENSION)}
    if extensions and module == "OAuthBearerLoginModule":
        found["sasl.oauthbearer.extensions"] = ",".join(f"{key}={text}" for key, text in extensions.items())
    if module in _PASSWORD_MODULES and len(found) < 2:
        raise ValueError("lacks username or password")
    return found


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    position, text = 0, text.rstrip()
    while position < len(text):
        option = _OPTION.match(text, position)
        if option is None:
            raise ValueError("has an option that is not key=value; quote values that hold spaces")
        quoted = option["double"] if option["double"] is not None else option["single"]
        options[option["key"]] = option["bare"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        position = option.end()
    return options
