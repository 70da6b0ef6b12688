"""What a tenant has said of how long it keeps what."""

from durable_context.database import Pool, acquired
from durable_context.retention.policy import RetentionPolicy

_READ = "select t.retention from durable_context.tenants t where t.tenant = $1"
_WRITE = """
insert into durable_context.tenants (tenant, retention) values ($1, $2)
on conflict (tenant) do update set retention = excluded.retention
"""


async def retention_policy(pool: Pool, tenant: str) -> RetentionPolicy:
    """The tenant's own, else the default."""
    async with acquired(pool) as connection:
        stored = await connection.fetchval(_READ, tenant)
    return RetentionPolicy.model_validate_json(stored) if stored else RetentionPolicy()


async def keep_retention_policy(pool: Pool, tenant: str, policy: RetentionPolicy) -> None:
    """From the next page on it is the tenant's."""
    async with acquired(pool) as connection:
        await connection.execute(_WRITE, tenant, policy.model_dump_json())
