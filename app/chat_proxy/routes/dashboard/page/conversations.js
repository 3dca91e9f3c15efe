// The conversations that the latest chats belong to, and which of them is drawn.

import { byId, el } from "./dom.js";
import { count, exact } from "./format.js";
import { drawTimeline } from "./charts.js";

let chosen = null;

function groups(rows) {
  const found = new Map();
  for (const row of rows) {
    if (!row.conversation || row.tokens[0] === null || row.command) continue;
    if (!found.has(row.conversation)) found.set(row.conversation, []);
    found.get(row.conversation).push(row);
  }
  return found;
}

// The longest of the latest ones tells most, as long as nobody has chosen.
function best(found) {
  const latest = [...found].slice(-12);
  return latest.reduce((most, each) => (each[1].length > (most?.[1].length ?? 0) ? each : most), null)?.[0] ?? null;
}

function note(rows) {
  const breaks = rows.filter((row) => row.is_break).length;
  const last = rows.at(-1);
  const left = last.window ? ` The last one has ${exact(last.tokens[1])} of ${exact(last.window)} tokens.` : " Nobody knows this model's window.";
  return `${count(rows.length, "request")}, compacted ${breaks === 1 ? "once" : `${breaks} times`} (▼).${left}`;
}

export function showConversations(rows) {
  const found = groups(rows);
  const name = found.has(chosen) ? chosen : best(found);
  const options = [...found].reverse().slice(0, 40).map(([id, own]) => {
    const option = el("option", {}, `${id} · ${own.at(-1).model} · ${own.length}`);
    option.value = id;
    return option;
  });
  const select = byId("conversation");
  select.hidden = !options.length;
  select.replaceChildren(...options);
  if (name === null) {
    byId("timeline-note").textContent = "Each request of a conversation becomes a point here: what the client sent, what was sent on, and the window above both.";
    return;
  }
  select.value = name;
  drawTimeline(found.get(name));
  byId("timeline-note").textContent = note(found.get(name));
}

export function choose(name) {
  chosen = name;
}
