"""A server on the official Python SDK, for both protocol eras, with one tool for each thing a relay could break.

The same tools as server.mjs; the scenario that uses them is in client.mjs and client.py.
"""

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

MODERN = "2026-07-28"

server = MCPServer("python-peer")


@server.tool(title="Echo – écho – 回声", annotations=types.ToolAnnotations(read_only_hint=True))
async def echo(message: str) -> str:
    """Says what it was told: “ünïcödé”, \u2028 and 🦀 too."""
    return message


@server.tool()
async def fail(message: str) -> str:
    """Raises."""
    raise ValueError(message)


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Counts, with progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
    return f"counted to {steps}"


@server.tool()
async def wait(ctx: Context) -> str:
    """Tells that it began, then waits to be cancelled."""
    await ctx.report_progress(1, 2)
    await anyio.sleep_forever()
    return "never"


class Confirmation(BaseModel):
    sure: bool


@server.tool()
async def confirm(what: str, ctx: Context) -> str | types.InputRequiredResult:
    """Asks the person."""
    if modern(ctx):
        answer = (ctx.input_responses or {}).get("confirm")
        if answer is not None:
            return answer.model_dump_json(exclude_none=True)
        params = types.ElicitRequestFormParams(
            message=f"really {what}?", requested_schema=Confirmation.model_json_schema()
        )
        return types.InputRequiredResult(input_requests={"confirm": types.ElicitRequest(params=params)})
    answer = await ctx.elicit(f"really {what}?", Confirmation)
    return f"{answer.action}: {answer.data}" if answer.action == "accept" else answer.action


@server.tool()
async def summarise(what: str, ctx: Context) -> str | types.InputRequiredResult:
    """Asks the model."""
    messages = [types.SamplingMessage(role="user", content=types.TextContent(text=f"summarise {what}"))]
    if modern(ctx):
        answer = (ctx.input_responses or {}).get("summary")
        if answer is not None:
            return answer.model_dump_json(exclude_none=True)
        params = types.CreateMessageRequestParams(messages=messages, max_tokens=10)
        return types.InputRequiredResult(input_requests={"summary": types.CreateMessageRequest(params=params)})
    answer = await ctx.request_context.session.create_message(messages, max_tokens=10)
    return answer.model_dump_json(exclude_none=True)


@server.tool()
async def drop(table: str) -> str:
    """What a rule denies."""
    return f"dropped {table}"


@server.resource("note://one", mime_type="text/plain", description="A note.")
async def note() -> str:
    return "a note – “quoted”"


@server.resource("page://{number}")
async def page(number: str) -> str:
    return f"page {number}"


@server.prompt()
async def greet(name: str) -> str:
    """Greets."""
    return f"Greet {name}."


def modern(ctx: Context) -> bool:
    return (ctx.protocol_version or "") >= MODERN


if __name__ == "__main__":
    server.run("stdio")
