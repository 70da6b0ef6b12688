"""A TCP connection that a test can cut."""

import asyncio
from types import TracebackType
from typing import Self


class Relay:
    """Leads to an address, until it is cut."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.rpartition(":")
        self._open: set[asyncio.StreamWriter] = set()
        self.address = ""
        self.met = asyncio.Event()
        """Somebody has come."""
        self._passing = asyncio.Event()
        self._passing.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cut()

    def hang(self) -> None:
        """It stays open, and leads nowhere."""
        self._passing.clear()

    def cut(self) -> None:
        self._server.close()
        self._passing.set()
        for writer in self._open:
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met.set()
        await self._passing.wait()
        there_reader, there_writer = await asyncio.open_connection(self._host, int(self._port))
        self._open |= {writer, there_writer}
        both = (self._copy(reader, there_writer), self._copy(there_reader, writer))
        await asyncio.gather(*both, return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                await self._passing.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
