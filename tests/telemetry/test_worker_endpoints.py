"""What a real worker process serves to Prometheus, after it did all kinds of work."""

from pathlib import Path

from tests.telemetry.scraping import Scrape, scraped_worker

RECIPE = "model/openai:gpt-4o-mini/1"


async def test_a_worker_shows_what_it_did_on_both_endpoints(
    tmp_path: Path, database_url: str, temporal_address: str
) -> None:
    worker = await scraped_worker(tmp_path, database_url, temporal_address)
    _check_own(worker.own)
    _check_temporal(worker.temporal)
    for page in (worker.own.text, worker.temporal.text):
        assert "measured" not in page and "parcel" not in page  # what was said, and to whom


def _check_own(own: Scrape) -> None:
    compactions = "durable_context_compactions_total"
    assert sum(own.values(compactions, state="completed", reason="turn")) == 2
    assert own.values(compactions, state="failed", reason="rebuild") == [0]
    [before] = own.values("durable_context_compaction_tokens_before_total", reason="turn")
    [after] = own.values("durable_context_compaction_tokens_after_total", reason="turn")
    assert before > after > 0
    summaries = "durable_context_summaries_total"
    assert own.values(summaries, recipe=RECIPE, level="artifact", degraded="true") == [1]
    assert sum(own.values(summaries, recipe=RECIPE, level="0", degraded="false")) >= 2
    calls = "durable_context_summarizer_calls_total"
    assert own.values(calls, recipe=RECIPE, outcome="rejected") == [1]
    [ok] = own.values(calls, recipe=RECIPE, outcome="ok")
    [rejected, made] = (
        own.values("durable_context_summarizer_duration_seconds_count", outcome=outcome)
        for outcome in ("rejected", "made")
    )
    assert (rejected, made) == ([1], [ok])
    for direction in ("input", "output"):
        [tokens] = own.values("durable_context_summarizer_tokens_total", direction=direction)
        assert tokens > 0
    [cost] = own.values("durable_context_summarizer_cost_USD_total", recipe=RECIPE)
    assert 0 < cost < 1
    for name in ("branches", "turns", "tokens", "seconds"):
        assert own.values(f"durable_context_lag_{name}") == [0]


def _check_temporal(temporal: Scrape) -> None:
    for name in (
        "temporal_activity_schedule_to_start_latency_seconds_bucket",
        "temporal_request_failure_total",
        "temporal_long_request_failure_total",
        "temporal_worker_task_slots_available",
        "temporal_workflow_task_execution_failed_total",
    ):
        assert name in temporal.series
    assert temporal.values("temporal_workflow_failed_total", workflow_type="Compaction") == [1]
