// A small part of Markdown, enough for what models write: headings, lists, quotes, code, bold,
// italic. Pure: text in, a list of blocks out; the view makes nodes of them. HTML and links are
// text like any other: nothing here can be clicked, loaded or run.

/** blocks(text) -> [{kind, source, …}]: "code" {lang, text}, "heading" {level, text}, "list" {ordered, items}, "quote" {text}, "rule", "text" {text}. */
export function blocks(text) {
  const lines = text.split("\n");
  const found = [];
  for (let at = 0; at < lines.length; ) {
    const [block, next] = read(lines, at);
    if (block) found.push({ ...block, source: lines.slice(at, next).join("\n") });
    at = next;
  }
  return found;
}

const FENCE = /^\s{0,3}(```+|~~~+)\s*([\w+#.-]*)\s*$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;

function read(lines, at) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: heading[2] }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (line.startsWith(">")) return run(lines, at, (l) => l.startsWith(">"), (part) => ({ kind: "quote", text: part.map((l) => l.replace(/^>\s?/, "")).join("\n") }));
  if (ITEM.test(line)) return list(lines, at);
  return run(lines, at, (l, i) => l.trim() && (i === at || !starts(l)), (part) => ({ kind: "text", text: part.join("\n") }));
}

const starts = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || line.startsWith(">") || ITEM.test(line);

function run(lines, at, belongs, make) {
  let end = at;
  while (end < lines.length && belongs(lines[end], end)) end++;
  return [make(lines.slice(at, end)), end];
}

/** A fence that is not closed yet (the answer is still streamed) goes on to the end. */
function code(lines, at, [, fence, lang]) {
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(fence) && !lines[end].trim().slice(fence.length).trim())) end++;
  return [{ kind: "code", lang, text: lines.slice(at + 1, end).join("\n") }, end + 1];
}

function list(lines, at) {
  const items = [];
  let end = at;
  for (; end < lines.length; end++) {
    const item = ITEM.exec(lines[end]);
    if (item) items.push({ depth: Math.min(3, Math.floor(item[1].length / 2)), mark: item[2], text: item[3] });
    else if (lines[end].trim() && /^\s+/.test(lines[end])) items.at(-1).text += `\n${lines[end].trim()}`;
    else break;
  }
  return [{ kind: "list", items }, end];
}

const INLINE = /(`+)([^`](?:.*?[^`])?)\1(?!`)|\*\*(?=\S)(.+?)(?<=\S)\*\*|(?<![\w*])\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?![\w*])|(?<!\w)_(?=[^\s_])(.+?)(?<=[^\s_])_(?!\w)/gs;

/** inline(text) -> [{kind: "text"|"code"|"bold"|"italic", text}] */
export function inline(text) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > at) found.push({ kind: "text", text: text.slice(at, match.index) });
    const [all, , code, bold, star, under] = match;
    if (code !== undefined) found.push({ kind: "code", text: code });
    else if (bold !== undefined) found.push({ kind: "bold", text: bold });
    else found.push({ kind: "italic", text: star ?? under });
    at = match.index + all.length;
  }
  if (at < text.length) found.push({ kind: "text", text: text.slice(at) });
  return found;
}
