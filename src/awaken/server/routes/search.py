"""`/v1/search` and `/v1/usage`: threads and runs by what was said, and what runs have used."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta
from starlette.types import ASGIApp

from awaken.core.search.query import SearchQuery
from awaken.core.search.usage import UsagePart, UsageRow
from awaken.core.store.threads import Page
from awaken.errors import ConfigError
from awaken.runtime.search.service import SearchHit, SearchPage, SearchState
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.client_ids import ClientIds
from awaken.server.errors import HttpRefusal
from awaken.server.lookup import READERS, may_read_all, may_see_in, visible_page
from awaken.server.request_types import Id, Line, RequestPart
from awaken.server.response_types import ResponsePart
from awaken.server.route import KeyRole, Route

_READ = (KeyRole.INVOKE, KeyRole.READ)
Day = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Zone = Annotated[str, Meta(max_length=100)]
HitsSize = Annotated[int, Meta(ge=1, le=200)]


class SearchParameters(RequestPart, frozen=True, kw_only=True):
    """What to search for: `q` has words, "phrases" and filters such as `agent:desk`,
    `status:failed`, `after:7d` or `cost:>1`. Dates are days of the time zone `zone`."""

    q: Line = ""
    kind: Literal["threads", "runs"] = "threads"
    zone: Zone = "UTC"
    limit: HitsSize = 50
    cursor: Line | None = None


class SearchHitView(ResponsePart, frozen=True, kw_only=True):
    """A run that was found, and its thread. Without `run_id`, the thread was found by its title or
    id, or by messages that no run has. Times are in milliseconds since 1970."""

    thread_id: str
    run_id: str | None
    title: str | None
    agent_id: str | None
    model: str | None
    user: str | None
    status: str | None
    started_at: int
    updated_at: int
    tokens: int
    cost: float | None
    question: str
    snippet: str

    @classmethod
    def of(cls, hit: SearchHit, ids: ClientIds) -> SearchHitView:
        return cls(
            thread_id=ids.outside(hit.thread_id),
            run_id=ids.outside_if(hit.run_id),
            title=hit.title,
            agent_id=hit.agent_id,
            model=hit.model,
            user=hit.user,
            status=hit.status,
            started_at=hit.started_at_ms,
            updated_at=hit.updated_at_ms,
            tokens=hit.tokens,
            cost=hit.cost,
            question=ids.text(hit.question),
            snippet=ids.text(hit.snippet),
        )


class SearchAnswer(ResponsePart, frozen=True, kw_only=True):
    """A part of what was found, the newest run first; `cursor` gets the next part. What was
    committed less than `behind_ms` milliseconds ago may be missing; until the index is
    `is_complete`, a part of everything is."""

    items: tuple[SearchHitView, ...]
    cursor: str | None
    behind_ms: int
    is_complete: bool


class UsageParameters(RequestPart, frozen=True, kw_only=True):
    """Which runs to sum: `by` names the parts, with commas between them, of day, agent, model and
    user. `after` is the first day, `before` the day behind the last one."""

    by: Line = "day"
    agent: Id | None = None
    model: Line | None = None
    user: Line | None = None
    after: Day | None = None
    before: Day | None = None
    zone: Zone | None = None


class UsageRowView(ResponsePart, frozen=True, kw_only=True):
    """What some runs have used. `unpriced` runs used tokens whose price is unknown."""

    day: str | None
    agent: str | None
    model: str | None
    user: str | None
    runs: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost: float
    unpriced: int

    @classmethod
    def of(cls, row: UsageRow) -> UsageRowView:
        return cls(**{name: getattr(row, name) for name in cls.__struct_fields__})


class UsageSums(ResponsePart, frozen=True, kw_only=True):
    """Sums, the days in order, and within a day the greatest cost first."""

    items: tuple[UsageRowView, ...]


async def search(call: ApiCall) -> ASGIApp:
    asked: SearchParameters = call.query
    state = SearchState()

    async def find(query: SearchQuery) -> Page[SearchHit]:
        nonlocal state
        page: SearchPage = await call.runtime.search(
            query.text,
            kind=query.kind,
            scope=query.scope,
            zone=query.zone,
            limit=query.limit,
            cursor=query.cursor,
        )
        state = page.state
        return page

    query = SearchQuery(
        text=asked.q,
        kind=asked.kind,
        scope=call.principal.scope,
        zone=asked.zone,
        limit=asked.limit,
        cursor=asked.cursor,
    )
    page = await visible_page(find, query, lambda hit: may_see_in(call, hit.thread_id, READERS))
    return JsonResponse(
        SearchAnswer(
            items=tuple(SearchHitView.of(hit, call.ids) for hit in page),
            cursor=page.cursor,
            behind_ms=state.behind_ms,
            is_complete=state.is_complete,
        )
    )


async def usage(call: ApiCall) -> ASGIApp:
    asked: UsageParameters = call.query
    if not may_read_all(call):
        raise HttpRefusal(403, "missing_role", "sums need a key that may read the whole scope")
    rows = await call.runtime.usage(
        _parse_parts(asked.by),
        scope=call.principal.scope,
        agent=asked.agent,
        model=asked.model,
        user=asked.user,
        after=asked.after,
        before=asked.before,
        zone=asked.zone,
    )
    return JsonResponse(UsageSums(items=tuple(UsageRowView.of(row) for row in rows)))


def _parse_parts(text: str) -> list[UsagePart]:
    known: dict[str, UsagePart] = {part: part for part in get_args(UsagePart) if part != "scope"}
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ConfigError(f"by: {name!r} is none of {', '.join(known)}")
    return [known[name] for name in names]


ROUTES = (
    Route(
        method="GET",
        path="/v1/search",
        handle=search,
        name="search",
        summary="Search threads and runs",
        needs=_READ,
        query=SearchParameters,
        answers={200: SearchAnswer},
        errors=(410,),
    ),
    Route(
        method="GET",
        path="/v1/usage",
        handle=usage,
        name="get_usage",
        summary="What runs have used, by day, agent, model and user",
        needs=(KeyRole.READ,),
        query=UsageParameters,
        answers={200: UsageSums},
    ),
)
