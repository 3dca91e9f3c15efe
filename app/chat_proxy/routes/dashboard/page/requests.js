// The list of chats, the newest first; new ones are put on top so that nothing moves under a hand.

import { byId, chip, el } from "./dom.js";
import { count, duration, exact, isTrouble, outcomeOf, short, stageName, time } from "./format.js";

const SHOWN = 100;
const WAITS = "in the proxy itself · for a summary · from the call of the model until its answer began";
const FILTERS = {
  all: () => true,
  changed: (row) => row.stages.length > 0,
  compacted: (row) => row.is_break,
  trouble: isTrouble,
};

let filter = FILTERS.all;
let open = () => {};

export function setUpRequests(onOpen) {
  open = onOpen;
}

export function chooseFilter(name, rows) {
  filter = FILTERS[name] ?? FILTERS.all;
  byId("requests").replaceChildren();
  addRequests(rows);
}

export function addRequests(rows) {
  const list = byId("requests");
  const lines = rows.filter(filter).slice(-SHOWN).reverse().map(line);
  list.prepend(...lines);
  while (list.children.length > SHOWN) list.lastChild.remove();
  byId("empty").hidden = list.children.length > 0;
}

function gauge([before, after], window) {
  const whole = Math.max(window, before, 1);
  const bar = el("span", { class: "gauge", title: window ? `window ${exact(window)}` : "window unknown" }, el("i"), el("i"));
  [before, after].forEach((tokens, index) => { bar.children[index].style.width = `${(100 * tokens) / whole}%`; });
  if (window && before > window) {
    const mark = el("b");
    mark.style.left = `${(100 * window) / whole}%`;
    bar.append(mark);
  }
  return bar;
}

function tokens(row) {
  const [before, after] = row.tokens;
  if (before === null) return el("span", { class: "tokens soft" }, "not measured");
  const isLess = after !== null && after !== before;
  const text = isLess ? `${exact(before)} → ${exact(after)}` : exact(before);
  return el("span", { class: "tokens" }, text, el("span", { class: "soft" }, row.window ? ` of ${short(row.window)}` : ""), gauge([before, after ?? before], row.window));
}

function done(row) {
  const [words, kind] = outcomeOf(row);
  const isTold = (stage) => stage === "summary" && row.tokens[0] !== null;
  const chips = [chip(words, kind)];
  if (row.wire && row.wire !== "chat") chips.unshift(chip(row.wire, "", "the API of the request"));
  if (row.command) chips.unshift(chip(row.command, "accent", "a command, answered by the proxy"));
  else if (row.is_break) chips.push(chip("▼ compacted", "warn"));
  if (row.command && row.stages.length) chips.push(chip(`${exact(row.messages[0])} → ${count(row.messages[1], "message")}`));
  chips.push(...row.stages.filter((stage) => !isTold(stage)).map((stage) => chip(stageName(stage))));
  if (row.replays) chips.push(chip(`${row.replays} × too long`, "warn"));
  if (row.recalls?.[0]) chips.push(chip(`${row.recalls[0]} × recalled`));
  chips.push(...row.failed_stages.map((stage) => chip(`${stageName(stage)} failed`, "bad")));
  return el("span", { class: "done" }, ...chips);
}

function waits(row) {
  const parts = row.command ? [] : [["proxy", row.proxy_ms], ["model", row.upstream_ms]];
  if (row.summary_wait_ms) parts.splice(row.command ? 0 : 1, 0, ["summary", row.summary_wait_ms]);
  const told = parts.flatMap(([name, ms]) => [" · ", el("span", {}, `${name} ${duration(ms)}`)]);
  return el("span", { class: "wait", title: WAITS }, ...told.slice(1));
}

function status(row) {
  const kind = row.status >= 500 || row.status === 0 ? "bad" : row.status >= 400 || row.code ? "warn" : "good";
  return el("span", { class: "status" }, chip(String(row.status || "–"), kind, row.code));
}

function line(row) {
  const button = el("button", { class: "request", type: "button" },
    el("span", { class: "time" }, time(row.at)),
    el("span", { class: "model", title: row.model }, row.model || "(no model)"),
    tokens(row), done(row), waits(row), status(row));
  if (row.reason) button.append(el("span", { class: "reason" }, row.reason));
  button.addEventListener("click", () => open(row));
  return el("li", {}, button);
}
