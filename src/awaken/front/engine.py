"""What a runtime's methods use of the engine, loaded when a method first needs it.

So `from awaken import Agent, Runtime` loads what describes agents, the first `Runtime(…)` loads the
loop, and following, outlines and background tasks are loaded when they are asked for.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.contract.background import TaskStatus
    from awaken.contract.blobs import FreedBlobs, RunBlobs
    from awaken.contract.commits import ThreadCommit
    from awaken.contract.llm import InferenceRequest, preview_of
    from awaken.contract.registry import ContentResolver
    from awaken.contract.threads import ChildStrategy, RunQuery, ThreadQuery, TicketQuery
    from awaken.domain.names import is_given_in, is_scope, scoped_id
    from awaken.front.build import Assembly, shapes_of, with_teams
    from awaken.front.stream import RunStream
    from awaken.front.submit import submit
    from awaken.front.sync import SyncDoor, call_in
    from awaken.front.tasks import at_rest, list_tasks, over_or_asking, tree_at_rest
    from awaken.live.bus import LocalBus
    from awaken.live.follow import follow
    from awaken.live.outline import outline
    from awaken.live.tree import follow_tree
    from awaken.loop.media import loaded
    from awaken.plugin.agent import ResolvedAgent
    from awaken.runtime.closing import close_plugins
    from awaken.runtime.edited_arguments import check_edit
    from awaken.runtime.operations import decide, send
    from awaken.runtime.reading import resolve
    from awaken.runtime.receipts import cancel_with_receipt
    from awaken.runtime.recovery import Recovery
    from awaken.runtime.runtime import RESOLVER

__all__ = [
    "RESOLVER",
    "Assembly",
    "ChildStrategy",
    "ContentResolver",
    "FreedBlobs",
    "InferenceRequest",
    "LocalBus",
    "Recovery",
    "ResolvedAgent",
    "RunBlobs",
    "RunQuery",
    "RunStream",
    "SyncDoor",
    "TaskStatus",
    "ThreadCommit",
    "ThreadQuery",
    "TicketQuery",
    "at_rest",
    "call_in",
    "cancel_with_receipt",
    "check_edit",
    "close_plugins",
    "decide",
    "follow",
    "follow_tree",
    "is_given_in",
    "is_scope",
    "list_tasks",
    "loaded",
    "outline",
    "over_or_asking",
    "preview_of",
    "resolve",
    "scoped_id",
    "send",
    "shapes_of",
    "submit",
    "tree_at_rest",
    "with_teams",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "awaken.contract.background": "TaskStatus",
        "awaken.contract.blobs": "FreedBlobs RunBlobs",
        "awaken.contract.commits": "ThreadCommit",
        "awaken.contract.llm": "InferenceRequest preview_of",
        "awaken.contract.registry": "ContentResolver",
        "awaken.contract.threads": "ChildStrategy RunQuery ThreadQuery TicketQuery",
        "awaken.domain.names": "is_given_in is_scope scoped_id",
        "awaken.front.build": "Assembly shapes_of with_teams",
        "awaken.front.stream": "RunStream",
        "awaken.front.submit": "submit",
        "awaken.front.sync": "SyncDoor call_in",
        "awaken.front.tasks": "at_rest list_tasks over_or_asking tree_at_rest",
        "awaken.live.bus": "LocalBus",
        "awaken.live.follow": "follow",
        "awaken.live.outline": "outline",
        "awaken.live.tree": "follow_tree",
        "awaken.loop.media": "loaded",
        "awaken.plugin.agent": "ResolvedAgent",
        "awaken.runtime.closing": "close_plugins",
        "awaken.runtime.edited_arguments": "check_edit",
        "awaken.runtime.operations": "decide send",
        "awaken.runtime.reading": "resolve",
        "awaken.runtime.receipts": "cancel_with_receipt",
        "awaken.runtime.recovery": "Recovery",
        "awaken.runtime.runtime": "RESOLVER",
    },
)
