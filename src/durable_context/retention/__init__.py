"""Retention: what nothing needs any more goes after a while, by the policy of each tenant."""

from durable_context.retention.policy import RetentionPolicy
from durable_context.retention.report import RetentionPage, RetentionReport, Taken
from durable_context.retention.running import run_page

__all__ = ["RetentionPage", "RetentionPolicy", "RetentionReport", "Taken", "run_page"]
