"""The official Python client going through one fixed scenario; prints what it saw, one JSON line a step.

    python client.py MODE NAMES COMMAND [ARGUMENT…]

MODE: `legacy` (the 2025-11-25 handshake), `modern` (2026-07-28) or `auto` (asks with `server/discover`, falls back).
NAMES: `peer` for server.mjs and server.py, `everything` for server-everything. The same scenario as client.mjs.
What is random or a matter of timing never reaches a line: two runs against one server print the same.
"""

import hashlib
import json
import os
import sys

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from pydantic import BaseModel

mode, names, command, *arguments = sys.argv[1:]

STEPS = {
    "peer": {
        "echo": "echo",
        "fail": ("fail", {"message": "raised on purpose"}),
        "count": ("count", {"steps": 3}),
        "wait": ("wait", {}),
        "confirm": ("confirm", {"what": "drop it"}),
        "summarise": ("summarise", {"what": "the log"}),
        "denied": ("drop", {"table": "users"}),
        "resources": ["note://one", "page://7"],
        "prompt": ("greet", {"name": "Zoë"}),
    },
    "everything": {
        "echo": "echo",
        "fail": ("get-sum", {"a": "one", "b": 2}),
        "count": ("trigger-long-running-operation", {"duration": 0.3, "steps": 3}),
        "wait": ("trigger-long-running-operation", {"duration": 4, "steps": 40}),
        "confirm": ("trigger-elicitation-request", {}),
        "summarise": ("trigger-sampling-request", {"prompt": "the log", "maxTokens": 10}),
        "denied": ("get-tiny-image", {}),
        "resources": ["demo://resource/static/document/features.md"],
        "prompt": ("args-prompt", {"city": "Zürich"}),
    },
}[names]
UNICODE = 'Ünïcödé “quotes” \u2028 \u0000 \u007f 🦀 e\u0301 مرحبا 回声 \\ "'
LARGE_CHARACTERS = 512 * 1024

events = []


async def main():
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(
        server,
        mode="2026-07-28" if mode == "modern" else mode,
        client_info=types.Implementation(name="callgate-suite", version="1.0.0"),
        elicitation_callback=elicited,
        sampling_callback=sampled,
        list_roots_callback=rooted,
        cache=None,
    ) as client:
        show("connect", {"result": plain([client.protocol_version, client.server_info, client.server_capabilities])})
        await step("tools/list", pages(client.list_tools, "tools"))
        await step("echo unicode", client.call_tool(STEPS["echo"], {"message": UNICODE}))
        await step("echo large", client.call_tool(STEPS["echo"], {"message": "x🦀" * (LARGE_CHARACTERS // 4)}))
        await step("raise", client.call_tool(*STEPS["fail"]))
        await step("unknown tool", client.call_tool("no-such-tool", {}))
        await step("progress", client.call_tool(*STEPS["count"], progress_callback=ignored))
        await step("cancel", cancelled(client))
        if client.protocol_version < "2026-07-28":
            await step("ping", client.send_ping())
        await step("resources/list", pages(client.list_resources, "resources"))
        await step("resources/templates/list", pages(client.list_resource_templates, "resource_templates"))
        for uri in STEPS["resources"]:
            await step("resources/read", client.read_resource(uri))
        await step("prompts/list", pages(client.list_prompts, "prompts"))
        await step("prompts/get", client.get_prompt(*STEPS["prompt"]))
        await step("elicitation", client.call_tool(*STEPS["confirm"]))
        await step("sampling", client.call_tool(*STEPS["summarise"]))
        await step("denied by a rule", client.call_tool(*STEPS["denied"]))
        await step("echo after all", client.call_tool(STEPS["echo"], {"message": "still here"}))


async def step(name, work):
    try:
        show(name, {"result": shortened(plain(await work))})
    except Exception as error:
        show(name, {"error": {"name": type(error).__name__, "message": str(error)}})


def show(name, seen):
    print(json.dumps({"step": name, **seen, "events": events}, ensure_ascii=False), flush=True)
    events.clear()


async def cancelled(client):
    """The tool tells that it began, and is given up on."""
    with anyio.CancelScope() as scope:

        async def give_up(*_):
            scope.cancel()

        await client.call_tool(*STEPS["wait"], progress_callback=give_up)
    return {"cancelled": scope.cancelled_caught}


async def ignored(*_):
    """Whether a progress message is still taken depends on how close behind it the answer comes; that one is taken at all
    shows in the step after, and what came over the wire is compared there."""


async def pages(method, key):
    items, cursor = [], None
    while True:
        page = await method(cursor=cursor)
        items += getattr(page, key)
        cursor = page.next_cursor
        if cursor is None:
            return items


async def elicited(_, params):
    events.append(["elicitation", plain(params)])
    return types.ElicitResult(action="accept", content={"sure": True, "name": "Zoë", "check": True})


async def sampled(_, params):
    events.append(["sampling", plain(params)])
    content = types.TextContent(text="a summary")
    return types.CreateMessageResult(role="assistant", model="none", content=content)


async def rooted(_):
    return types.ListRootsResult(roots=[types.Root(uri="file:///work", name="work")])


def plain(value):
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return [plain(part) for part in value] if isinstance(value, list) else value


def shortened(value):
    if isinstance(value, str) and len(value) > 1000:
        return {"length": len(value), "sha256": hashlib.sha256(value.encode()).hexdigest()}
    if isinstance(value, list):
        return [shortened(part) for part in value]
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    return value


anyio.run(main)
