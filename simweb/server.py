"""The simulated web as one process: starts and stops its servers and its ledger."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, time
from typing import Any

from simweb.control import Control
from simweb.dns import DnsServer, Names
from simweb.http import Web
from simweb.ledger import Ledger, Rules
from simweb.listeners import Listeners
from simweb.model import World
from simweb.options import option
from simweb.origins import OriginKind
from simweb.spec import WorldSpec
from simweb.survey import Survey


@dataclass(frozen=True)
class Options:
    """The arguments of a server."""

    spec: WorldSpec = field(default_factory=WorldSpec)
    rules: Rules = field(default_factory=Rules)
    port: int = option(0, "PORT", "port of HTTP; 0 here and below: any free port")
    https_port: int = option(0, "PORT", "port of HTTPS")
    dns_port: int = option(0, "PORT", "port of DNS")
    control_port: int = option(0, "PORT", "port of ledger and control")
    slowness: float = option(1.0, "X", "multiply all pauses by X")
    seeds_out: str = option("", "FILE", "write the seed list here")
    journal: str = option(
        "", "FILE", "write a line of JSON for each request and each answer to FILE"
    )
    survey_lines: int = 0  # above 0: the seeds are this many lines of a survey


class SimulatedWeb:
    """All servers of one world."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._listeners: Listeners
        self._stopped = asyncio.Event()

    async def start(self) -> dict[str, Any]:
        """Begins to serve. Returns the ports and URLs that a crawler needs."""
        options = self.options
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self._listeners = Listeners(options.port, options.https_port)
        spec = options.spec
        if not self._listeners.ipv6:
            spec = replace(spec, features=f"{spec.features},-dns-ipv6")
        self.world = World(spec, self._listeners.ports)
        if self.world.changes is not None:
            self.world.changes.utc_s = time() - monotonic()
        self._survey = Survey(self.world, options.survey_lines) if options.survey_lines else None
        self._names = Names(self.world)
        self._dns = DnsServer(self._names)
        journal = None
        if options.journal:
            journal = Path(options.journal).open("w", 1)  # noqa: ASYNC230, SIM115  (as long as it runs)
        self._web = Web(Ledger(self.world, options.rules), options.slowness, journal)
        self._control = Control(
            {
                "/ledger": lambda _: json.dumps(self.report()).encode(),
                "/totals": lambda _: json.dumps(self._web.ledger.totals).encode(),
                "/seeds": lambda _: "\n".join(self.seeds()).encode() + b"\n",
                "/latest": lambda _: json.dumps([*self._web.ledger.latest]).encode(),
                "/reset": self._reset,
                "/hold": lambda pages: self._web.hold(int(pages)),
                "/release": lambda _: self._web.release(),
                "/quit": lambda _: self.stop(),
            }
        )
        if options.seeds_out:
            with Path(options.seeds_out).open("w") as file:  # noqa: ASYNC230  (no task runs yet)
                file.writelines(f"{line}\n" for line in self.seeds())
        await self._listeners.start(self._web, self._kind_of)
        await self._dns.start("127.0.0.1", options.dns_port)
        await self._control.start("127.0.0.1", options.control_port)
        return {
            "dns": f"127.0.0.1:{self._dns.port}",
            "port": self._listeners.ports.http,
            "https": self._listeners.ports.https,
            "control": f"http://127.0.0.1:{self._control.port}",
            "seeds": options.seeds_out or f"http://127.0.0.1:{self._control.port}/seeds",
        }

    def _kind_of(self, name: str) -> OriginKind | None:
        host = self.world.find(name)
        return None if host is None else self.world.origin_kind(host)

    def seeds(self) -> list[str]:
        return list(self._survey.lines() if self._survey else self.world.seeds())

    def report(self) -> dict[str, Any]:
        asked = self._names.asked
        ledger = self._web.ledger
        ledger.extra = {
            "dns": {
                "queries": sum(asked.values()),
                "names": len(asked),
            },
            "most_open": self._web.most_open,
        }
        if self._survey:
            ledger.extra["survey"] = self._survey.truth()
        return ledger.report(monotonic())

    def _reset(self, _: str) -> None:
        self._web.ledger = Ledger(self.world, self.options.rules)
        self._web.most_open = self._web.open
        self._names.asked.clear()

    def stop(self) -> None:
        self._stopped.set()

    async def run(self) -> None:
        """Serves until SIGTERM, SIGINT, `/quit` or the end of standard input."""
        await self._stopped.wait()
        for server in (self._listeners, self._dns, self._control):
            server.close()
