"""The files of one PostgreSQL cluster: made once, with a password, owned by who runs the server."""

import asyncio
import os
import re
import secrets
import shutil
from pathlib import Path

from worker.child_process import ChildProcess, Command, bare_environment
from worker.errors import PostgresUnavailable
from worker.postgres_binaries import reaches, unprivileged_user, wheel_programs

ROLE = "durable_context"
FIRST_MAJOR_WITH_BUILTIN_LOCALES = 17


class PostgresCluster:
    """`directory` holds the cluster, the password of its role, and the logs of its programs."""

    def __init__(self, directory: Path, *, programs: Path | None, durable: bool) -> None:
        self.directory = directory.absolute()
        self._files = self.directory / "cluster"
        self._password = self.directory / "password"
        self._user = unprivileged_user()
        self._programs = programs or wheel_programs(self._user)
        self._durable = durable

    @property
    def password(self) -> str:
        return self._password.read_text()

    async def make(self) -> None:
        """Idempotent; refuses files that another major version of PostgreSQL wrote."""
        major = await self._program_major()
        self._own(self.directory)
        if self._files.exists():
            self._check_version(major)
            return
        # Renamed when complete: a cluster that exists was not left half made.
        draft = self.directory / "cluster.new"
        shutil.rmtree(draft, ignore_errors=True)
        self._own(draft)
        self._write_password()
        await self._run_initdb(draft, major)
        draft.rename(self._files)

    def server_command(self, *options: str) -> Command:
        self._forget_reused_pid()
        return self._command(self._files, "postgres", *options)

    def _command(self, files: Path, program: str, *options: str) -> Command:
        return Command(
            arguments=[
                str(self._programs / program),
                "-D",
                self._path_for_program(files),
                *options,
            ],
            environment=bare_environment() | {"LC_ALL": "C"},
            directory=files,
            user=self._user,
        )

    def _path_for_program(self, files: Path) -> str:
        if self._user is None or reaches(self._user, files):
            return str(files)
        # The folders above are closed to this user, but the working directory, entered before the
        # user changed, stays open.
        return "/proc/self/cwd"

    async def _program_major(self) -> int:
        process = await asyncio.create_subprocess_exec(
            self._programs / "postgres", "--version", stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        found = re.search(rb"\d+", output)
        if found is None:
            raise PostgresUnavailable(f"{str(self._programs / 'postgres')!r} does not run")
        return int(found[0])

    def _check_version(self, major: int) -> None:
        written_by = int((self._files / "PG_VERSION").read_text())
        if written_by != major:
            raise PostgresUnavailable(
                f"{str(self._files)!r} was written by PostgreSQL {written_by} and this is "
                f"PostgreSQL {major}; use another data directory, or dump and restore"
            )

    async def _run_initdb(self, files: Path, major: int) -> None:
        password_file = f"{self._path_for_program(files)}/../{self._password.name}"
        initdb = ChildProcess(
            "initdb",
            self._command(
                files,
                "initdb",
                *(f"--username={ROLE}", "--encoding=UTF8", "--auth=scram-sha-256"),
                *(f"--pwfile={password_file}", *_locale_options(major)),
                *(() if self._durable else ("--no-sync",)),
            ),
            directory=self.directory,
        )
        try:
            await initdb.start()
            if code := await initdb.wait():
                raise initdb.failure(f"ended with exit code {code}")
        finally:
            await initdb.stop()

    def _own(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)

    def _write_password(self) -> None:
        self._password.unlink(missing_ok=True)
        self._password.touch(mode=0o600)
        self._password.write_text(secrets.token_urlsafe(24))
        if self._user is not None:
            os.chown(self._password, self._user.pw_uid, self._user.pw_gid)

    def _forget_reused_pid(self) -> None:
        """Put our own pid, which PostgreSQL skips as its parent's, for that of a server that died.

        After a restart of a container the old pid often belongs to another process, and PostgreSQL
        would take that for a live server for ever. Our lock says there is none. The file itself
        stays, because PostgreSQL finds in it the shared memory of processes still about to leave.
        """
        lock = self._files / "postmaster.pid"
        if lock.exists():
            _, _, rest = lock.read_text().partition("\n")
            lock.write_text(f"{os.getpid()}\n{rest}")


def _locale_options(major: int) -> tuple[str, ...]:
    if major < FIRST_MAJOR_WITH_BUILTIN_LOCALES:
        return ("--locale=C.UTF-8",)
    return ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
