// One chat before and after: what became of each message.

import { byId, chip, el } from "./dom.js";
import { count, duration, exact, outcomeOf, stageName, time } from "./format.js";
import { picture } from "./picture.js";
import { ask } from "./stream.js";

const windowFrom = { setting: "set", registry: "registry file", discovery: "listed by the server", learned: "learned from an error", table: "known for this model" };

function facts(row) {
  const [before, after] = row.tokens;
  const told = {
    Model: row.model || "(no model)", API: row.wire || "chat", ...(row.command ? { Command: `${row.command}, answered by the proxy` } : {}), Time: time(row.at), Status: `${row.status} ${row.code}`, Outcome: outcomeOf(row)[0],
    Tokens: before === null ? "not measured" : `${exact(before)} → ${exact(after)}`,
    Messages: row.tokens[0] === null ? "–" : `${exact(row.messages[0])} → ${exact(row.messages[1])}`,
    "Model's own count": row.prompt_tokens ? `${exact(row.prompt_tokens)} (${exact(row.cached_tokens)} cached)` : "not told",
    Window: row.window ? `${exact(row.window)} (${windowFrom[row.window_source] ?? row.window_source})` : "unknown",
    "In the proxy": duration(row.proxy_ms), "Waited for a summary": row.summary_wait_ms ? duration(row.summary_wait_ms) : "–",
    "Until the model answered": duration(row.upstream_ms), "In all": duration(row.ms),
    "Request id": row.request_id, Conversation: row.conversation || "–",
  };
  if (row.reason) told.Why = row.reason;
  return el("dl", { class: "facts" }, ...Object.entries(told).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function what(message) {
  const parts = [];
  if (message.tools) parts.push(message.tools.join(", "));
  for (const [mime, number] of Object.entries(message.media ?? {})) parts.push(number > 1 ? `${number} × ${mime}` : mime);
  const stages = message.stages?.map(stageName).join(", ");
  if (message.change === "dropped") parts.push(`not sent (${stages})`);
  else if (stages) parts.push(stages);
  if (message.change === "added") parts.push("put in by the proxy");
  if (message.reason) parts.push(message.reason);
  return parts.join(" · ");
}

function line(message) {
  const number = message.index === null ? "" : `#${message.index + 1}`;
  const shown = el("div", { class: `message ${message.change}` },
    el("div", { class: "head" }, el("span", { class: "soft" }, number), el("span", { class: "role" }, message.role || "(no role)"),
      el("span", { class: "what" }, what(message)), el("span", { class: "tokens" }, exact(message.tokens))));
  if (message.text) shown.append(el("pre", {}, message.text + (message.is_cut ? " …" : "")));
  return shown;
}

function side(title, messages, whole) {
  const lines = messages.map(line);
  if (messages.length < whole) lines.splice(20, 0, el("div", { class: "gap" }, `${count(whole - messages.length, "message")} not listed`));
  return el("div", {}, el("h3", {}, `${title}: ${count(whole, "message")}`), ...lines);
}

function stages(found) {
  const chips = found.stages.map(({ stage, messages: [before, after] }) =>
    el("li", {}, chip(`${stageName(stage)}: ${before === after ? "less inside the messages" : `${before} → ${after} messages`}`, "accent")));
  if (found.plan) {
    const { form, target, limit } = found.plan;
    chips.push(el("li", {}, chip(`plan: ${form}, target ${exact(target)}, limit ${exact(limit)}`, "accent")));
  }
  if (found.unfit) chips.push(el("li", {}, chip(found.unfit, "bad")));
  return el("ul", { class: "stages" }, ...(chips.length ? chips : [el("li", {}, chip("no stage changed anything"))]));
}

async function found(row) {
  if (!row.has_detail) return null;
  try {
    return await (await ask(`dashboard/detail/${encodeURIComponent(row.id)}`)).json();
  } catch {
    return null;
  }
}

export async function showDetail(row) {
  const dialog = byId("detail");
  const body = byId("detail-body");
  body.replaceChildren(facts(row));
  if (!dialog.open) dialog.showModal();
  const detail = await found(row);
  if (detail === null) {
    body.append(el("p", { class: "note" }, "The messages of this chat are not kept, or not any more."));
    return;
  }
  const words = detail.shows_text ? null : el("p", { class: "note" }, "Structure only. CHAT_PROXY_DASHBOARD_SHOW_TEXT=true shows the text too.");
  body.append(picture(detail), stages(detail), el("div", { class: "sides" },
    side("From the client", detail.before, detail.messages[0]), side("Sent", detail.after ?? detail.before, detail.messages[1])));
  if (words) body.append(words);
}
