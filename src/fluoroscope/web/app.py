"""The server: addresses on one side, pages on the other. Addresses hold names of runs that were found, and no paths."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from fluoroscope.errors import FluoroscopeError
from fluoroscope.web.access import REPORT_POLICY, Guarded
from fluoroscope.web.details import FILES
from fluoroscope.web.events import MOST_WATCHERS, Snapshots
from fluoroscope.web.guarded_files import Root
from fluoroscope.web.pages import STATIC, compared, ledger_now, page, run_now, runs_now, static
from fluoroscope.web.runs import Found, LedgerFile, Run, find
from fluoroscope.web.side_by_side import side_by_side
from fluoroscope.web.standing import read_audit, standing

Addressed = TypeVar("Addressed", Run, LedgerFile)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Watched:
    """What is served: a folder of runs, ledgers that lie elsewhere, and whether patients' images are shown."""

    root: Root
    ledgers: tuple[Path, ...] = ()
    show_images: bool = False

    def found(self) -> Found:
        return find(self.root, self.ledgers)

    def run(self, name: str) -> Run:
        """The run of this id, as it is on disk now."""
        return _named(self.found().runs, name)

    def ledger(self, name: str) -> LedgerFile:
        return _named(self.found().ledgers, name)

    def now(self, key: str) -> str | None:
        """The changing part of a page; None where what it shows is gone."""
        kind, _, name = key.partition(" ")
        try:
            if kind == "runs":
                return runs_now(self.root, self.found())
            return run_now(self.root, self.run(name)) if kind == "run" else ledger_now(self.ledger(name))
        except (HTTPException, FluoroscopeError):
            return None


def make_app(watched: Watched, closing: Callable[[], bool] = lambda: False) -> FastAPI:
    """The pages, without the door before them. No page of FastAPI's own: those fetch scripts from elsewhere."""
    app = FastAPI(title="fluoroscope", openapi_url=None, docs_url=None, redoc_url=None)
    snapshots = Snapshots(watched.now, closing)

    @app.exception_handler(HTTPException)
    async def sorry(request: Request, problem: HTTPException) -> Response:
        return HTMLResponse(page("message.html", title=problem.detail), problem.status_code)

    @app.exception_handler(FluoroscopeError)
    async def explained(request: Request, problem: FluoroscopeError) -> Response:
        return HTMLResponse(page("message.html", title=str(problem)), 404)

    @app.get("/")
    def runs() -> HTMLResponse:
        found = watched.found()
        audits = [run for run in found.runs if run.kind == "audit"]
        return HTMLResponse(page("runs.html", now=runs_now(watched.root, found), audits=audits, found=found))

    @app.get("/runs/{name}")
    def one(name: str) -> HTMLResponse:
        run = watched.run(name)
        return HTMLResponse(page("run.html", run=run, now=run_now(watched.root, run)))

    @app.get("/ledgers/{name}")
    def door(name: str) -> HTMLResponse:
        ledger = watched.ledger(name)
        return HTMLResponse(page("ledger.html", ledger=ledger, now=ledger_now(ledger)))

    @app.get("/compare")
    def compare(before: str = "", after: str = "") -> HTMLResponse:
        audits = [run for run in watched.found().runs if run.kind == "audit"]
        if not before and not after:
            return HTMLResponse(compared(audits, None, None, None, ""))
        old, new = _named(audits, before), _named(audits, after)
        try:
            read = [read_audit(watched.root, run) for run in (old, new)]
        except FluoroscopeError as problem:
            return HTMLResponse(compared(audits, old, new, None, str(problem)))
        if read[0] is None or read[1] is None:
            return HTMLResponse(compared(audits, old, new, None, "One of the two has no findings yet."))
        found = side_by_side(watched.root, read[0], read[1], watched.show_images)
        return HTMLResponse(compared(audits, old, new, found, ""))

    @app.get("/files/{name}/{file}")
    def opened(name: str, file: str) -> Response:
        run = watched.run(name)
        if file not in FILES[run.kind]:
            raise HTTPException(404, "There is no such file to show.")
        return _file(watched.root.read(run.folder / file), file)

    @app.get("/static/{name}")
    def asset(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404, "There is no such file to show.")
        return Response(static(name), media_type=STATIC[name])

    @app.get("/api/runs")
    def listed() -> JSONResponse:
        return JSONResponse({"runs": [_plain(watched.root, run) for run in watched.found().runs]})

    @app.get("/events/{kind}")
    @app.get("/events/{kind}/{name}")
    async def events(kind: str, name: str = "") -> Response:
        if kind not in ("runs", "run", "ledger") or len(name) > 32:
            raise HTTPException(404, "There is nothing of this name to watch.")
        if snapshots.watchers >= MOST_WATCHERS:
            return Response("Too many people are watching.\n", 503, {"Retry-After": "10"})
        if await snapshots.latest(key := f"{kind} {name}") is None:
            raise HTTPException(404, "There is nothing of this name to watch.")
        return StreamingResponse(snapshots.stream(key), media_type="text/event-stream")

    return app


def guarded(watched: Watched, token: str, hosts: frozenset[str], port: int, closing: Callable[[], bool]) -> ASGIApp:
    """The pages behind their door. The cookie has the port in its name: cookies do not tell ports apart."""
    return Guarded(make_app(watched, closing), token, hosts, f"fluoroscope-{port}")


def _file(content: bytes, name: str) -> Response:
    suffix = Path(name).suffix
    headers = {"Content-Security-Policy": REPORT_POLICY} if suffix in (".html", ".svg") else {}
    if suffix == ".pdf":  # no browser shows one under such a policy
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return Response(content, headers=headers, media_type=_TYPES[suffix])


def _named(known: Sequence[Addressed], name: str) -> Addressed:
    for each in known:
        if each.id == name:
            return each
    raise HTTPException(404, "There is nothing of this name here; it may have been moved or deleted.")


def _plain(root: Root, run: Run) -> dict[str, Any]:
    found = asdict(standing(root, run))
    return {**found.pop("run"), **found, "folder": run.folder.name}
