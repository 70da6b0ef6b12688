"""`python -m worker`: the production worker; `python -m worker dev`: the embedded stack.

The worker's settings come from the environment, see `Settings.from_env`.
"""

import asyncio
import errno
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from durable_context.artifacts.object_store import URL_VARIABLE
from durable_context.errors import DurableContextError
from worker.errors import WorkerError
from worker.settings import EXIT_ADDRESS_IN_USE, EXTRACTIVE, TEMPORAL_UI_URL, Settings

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

logger = logging.getLogger("worker")
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def work(context: typer.Context) -> None:
    """Run the production worker, with settings from the environment, until SIGTERM or Ctrl-C."""
    if context.invoked_subcommand is None:
        _exit_at_once(_work())


@app.command()
def dev(
    data_dir: Annotated[
        Path | None,
        typer.Option(envvar="DURABLE_CONTEXT_DATA_DIR", help="Keeps everything that lasts."),
    ] = None,
    summarizers: Annotated[
        str,
        typer.Option(envvar="DURABLE_CONTEXT_SUMMARIZERS", help="Preferred first, with commas."),
    ] = EXTRACTIVE,
) -> None:
    """Run PostgreSQL, Temporal and a worker in the foreground until Ctrl-C or SIGTERM."""
    try:
        asyncio.run(_dev(data_dir, summarizers))
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    except (WorkerError, DurableContextError, ValueError) as error:
        Console(stderr=True).print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error


async def _dev(data_dir: Path | None, summarizers: str) -> None:
    from worker.embedded import EmbeddedStack  # the production image has no embedded PostgreSQL

    console = Console(highlight=False, soft_wrap=True)
    async with EmbeddedStack(data_dir, summarizers.split(",")) as stack:
        for name, value in (
            # As another shell takes them.
            ("export ", f"DURABLE_CONTEXT_DATABASE_URL={stack.database_url}"),
            ("export ", f"TEMPORAL_ADDRESS={stack.temporal_address}"),
            ("export ", f"{URL_VARIABLE}={stack.artifact_url}"),
            *([("export ", f"{TEMPORAL_UI_URL}={stack.ui_url}")] if stack.ui_url else []),
            ("Worker: ", f"{stack.worker_url}/metrics, /ready, /live"),
            ("Data and logs: ", stack.data_directory),
        ):
            console.print(name, style="bold", end="")
            console.print(str(value), markup=False)
        console.print("Ready. Ctrl-C stops everything; the data stays.")
        raise await stack.failed()


def _work() -> int:
    """The exit code."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    try:
        settings = Settings.from_env(os.environ)
        from worker.service import serve  # takes a second, which a wrong setting need not wait for

        # Not `asyncio.run`, which waits at its end for tasks that were given up.
        asyncio.Runner().run(serve(settings))
    except (WorkerError, DurableContextError) as error:
        logger.error("%s", error)
        return 1
    except OSError as error:
        logger.error("%s", error)
        return EXIT_ADDRESS_IN_USE if error.errno == errno.EADDRINUSE else 1
    except Exception:
        logger.exception("the worker broke")
        return 1
    return 0


def _exit_at_once(code: int) -> NoReturn:
    """An interpreter that ran Temporal workers may abort in its shutdown (PyGILState_Release)."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    app()
