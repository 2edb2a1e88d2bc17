"""What a tool of an MCP server gives, as the text that a tool reply carries."""

import msgspec
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

Block = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


def text_of(result: CallToolResult) -> str:
    """Its blocks, one below the other; structured content where there is no block.

    A server that gives both says the same in both (MCP, Tools, Structured Content). What is no
    text is named: its type and its size.
    """
    if not result.content and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(_said(block) for block in result.content)


def _said(block: Block) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type} {block.mime_type}, {_size(block.data)}: not text, left out]"
        case ResourceLink():
            return f"[resource {block.name}: {block.uri}]"
        case EmbeddedResource():
            resource = block.resource
            if isinstance(resource, TextResourceContents):
                return resource.text
            kind = resource.mime_type or "data"
            return f"[resource {resource.uri}, {kind}, {_size(resource.blob)}: left out]"


def _size(encoded: str) -> str:
    return f"{len(encoded) * 3 // 4} bytes"
