// What a turn and a session came to: context, tokens and cost, in words. Pure.

const number = (n) => n.toLocaleString("en");

/** $0.12 · $0.0031 · under $0.0001 */
export function dollars(n) {
  if (n > 0 && n < 0.0001) return "under $0.0001";
  return `$${n.toFixed(n === 0 || n >= 0.01 ? 2 : 4)}`;
}

/** Of a session or a record: context 4,096 of 8,192 (50 %) · $0.02 */
export function context(spent) {
  if (!spent) return "";
  const { context_used: used, context_max: max, context_percent: percent, cost_usd: cost } = spent;
  const share = percent === null || percent === undefined ? "" : ` of ${number(max)} (${percent} %)`;
  return [known(used) ? `context ${number(used)}${share}` : "", known(cost) ? dollars(cost) : ""].filter(Boolean).join(" · ");
}

/** Of a turn: 1,234 tokens in, 56 out · $0.02 */
export function tokens(spent) {
  if (!spent) return "";
  const { input_tokens: input, output_tokens: output, cost_usd: cost } = spent;
  const said = known(input) || known(output) ? `${known(input) ? number(input) : "?"} tokens in, ${known(output) ? number(output) : "?"} out` : "";
  return [said, known(cost) ? dollars(cost) : ""].filter(Boolean).join(" · ");
}

const known = (n) => n !== null && n !== undefined;
