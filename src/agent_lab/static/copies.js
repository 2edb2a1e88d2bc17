// An entry as something to paste: JSON, a command for a shell, a Python program. Pure.
//
// A model request becomes the call to its provider, with the exact body; any other entry the
// request that reads it from this server. Keys and tokens are named by their variable, never given.

/** Characters that a terminal obeys or a reader cannot see are written as escapes. */
const json = (value, indent) =>
  JSON.stringify(value, null, indent).replace(/[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

const PROVIDERS = {
  openai_chat: { base: "OPENAI_BASE_URL", home: "https://api.openai.com/v1", path: () => "/chat/completions", key: "OPENAI_API_KEY", header: "Authorization: Bearer " },
  openai_responses: { base: "OPENAI_BASE_URL", home: "https://api.openai.com/v1", path: () => "/responses", key: "OPENAI_API_KEY", header: "Authorization: Bearer " },
  anthropic: { base: "ANTHROPIC_BASE_URL", home: "https://api.anthropic.com", path: () => "/v1/messages", key: "ANTHROPIC_API_KEY", header: "x-api-key: ", more: [["anthropic-version", "2023-06-01"]] },
  gemini: { base: "GEMINI_BASE_URL", home: "https://generativelanguage.googleapis.com", path: (model) => `/v1beta/models/${encodeURIComponent(model)}:generateContent`, key: "GEMINI_API_KEY", header: "x-goog-api-key: " },
};

/** asJson(e, body): the entry, or of a model request its body. */
export const asJson = (e, body) => json(body ?? e, 2);

export function asCurl(e, body, origin) {
  const { url, key, header, more } = target(e, body, origin);
  const lines = [`curl -sS "${url}"`, `-H "${header}$${key}"`, ...more.map(([name, value]) => `-H '${name}: ${value}'`)];
  if (body) lines.push("-H 'Content-Type: application/json'", `--data-raw ${quoted(json(body, 1))}`);
  return `${lines.join(" \\\n  ")}\n`;
}

export function asPython(e, body, origin) {
  const { base, home, path, key, header, more } = target(e, body, origin);
  const [name, prefix] = header.split(/: (.*)/s);
  const headers = [`${json(name)}: ${prefix ? `${json(prefix)} + ` : ""}os.environ[${json(key)}]`, ...more.map(([n, v]) => `${json(n)}: ${json(v)}`)];
  if (body) headers.push('"Content-Type": "application/json"');
  return [
    "import json", "import os", "import urllib.request", "",
    ...(body ? [`body = ${python(body)}`, ""] : []),
    "request = urllib.request.Request(",
    `    ${base ? `os.environ.get(${json(base)}, ${json(home)}) + ` : ""}${json(base ? path : home + path)},`,
    ...(body ? ["    data=json.dumps(body).encode(),"] : []),
    `    headers={${headers.join(", ")}},`,
    ")",
    "with urllib.request.urlopen(request) as answer:",
    "    print(json.dumps(json.load(answer), indent=2))",
    "",
  ].join("\n");
}

function target(e, body, origin) {
  const provider = body ? (PROVIDERS[e.dialect] ?? PROVIDERS.openai_chat) : null;
  if (!provider) {
    const path = `/api/sessions/${encodeURIComponent(e.session_id)}/entries?after=${e.seq - 1}&limit=1`;
    return { url: origin + path, base: null, home: origin, path, key: "AGENT_LAB_TOKEN", header: "Authorization: Bearer ", more: [] };
  }
  const path = provider.path(e.model);
  return { url: `\${${provider.base}:-${provider.home}}${path}`, base: provider.base, home: provider.home, path, key: provider.key, header: provider.header, more: provider.more ?? [] };
}

/** JSON as a Python literal; its strings and numbers are Python's already. */
function python(value, pad = "") {
  const inner = `${pad}    `;
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return json(value);
  const isList = Array.isArray(value);
  const items = isList ? value.map((item) => python(item, inner)) : Object.entries(value).map(([key, item]) => `${json(key)}: ${python(item, inner)}`);
  const [open, close] = isList ? "[]" : "{}";
  return items.length ? `${open}\n${items.map((item) => `${inner}${item},\n`).join("")}${pad}${close}` : open + close;
}
