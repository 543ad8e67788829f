"""ACLs of a cluster with Security: grant, revoke, and wait until the broker has heard of it."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from exporter.model import Deadline
from testkit.processes import poll

_WAIT_SECONDS = 90.0
_RESOURCES = {
    "Cluster": ResourceType.BROKER,  # librdkafka's name for it; the resource is called kafka-cluster
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}

READ_ALL = (
    ("DESCRIBE_CONFIGS", "Cluster", "kafka-cluster"),
    ("READ", "Topic", "*"),
    ("DESCRIBE_CONFIGS", "Topic", "*"),
    ("DESCRIBE", "TransactionalId", "*"),
    ("DESCRIBE", "Group", "*"),
)
"""The five grants with which the agent sees everything."""


class Grants:
    """Grants as ``(operation, resource type, name)``; the name ``*`` means all."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def allow(self, user: str, operation: str, resource: str, name: str) -> None:
        self._add(self._binding(user, operation, resource, name, "ALLOW"))

    def deny(self, user: str, operation: str, resource: str, name: str) -> None:
        """A DENY wins over every ALLOW: the way to take one topic out of ``READ Topic:*``."""
        self._add(self._binding(user, operation, resource, name, "DENY"))

    def revoke(self, user: str, operation: str, resource: str, name: str, permission: str = "ALLOW") -> None:
        """Remove one ACL that was added with the same arguments."""
        wanted = _filter(self._binding(user, operation, resource, name, permission))
        for removed in self._admin.delete_acls([wanted]).values():
            removed.result(_WAIT_SECONDS)
        self._until(wanted, present=False)

    def allow_all_reads(self, user: str) -> None:
        for operation, resource, name in READ_ALL:
            self.allow(user, operation, resource, name)

    def _add(self, binding: AclBinding) -> None:
        for added in self._admin.create_acls([binding]).values():
            added.result(_WAIT_SECONDS)
        wanted = _filter(binding)
        self._until(wanted, present=True)

    def _binding(self, user: str, operation: str, resource: str, name: str, permission: str) -> AclBinding:
        return AclBinding(
            _RESOURCES[resource],
            name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[operation],
            AclPermissionType[permission],
        )

    def _until(self, wanted: AclBindingFilter, *, present: bool) -> None:
        until = Deadline.after(_WAIT_SECONDS)
        while bool(self._admin.describe_acls(wanted).result(_WAIT_SECONDS)) != present:
            if not poll(until):
                raise TimeoutError("the ACL did not take effect")


def _filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
