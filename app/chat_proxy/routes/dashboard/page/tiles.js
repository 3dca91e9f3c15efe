// The totals, and the chips that say how the proxy is.

import { byId, chip, el } from "./dom.js";
import { count, date, duration, exact, percent, short } from "./format.js";

function tile(label, value, sub, kind = "") {
  return el("div", { class: "tile" },
    el("div", { class: "label" }, label),
    el("div", { class: `value ${kind}` }, value),
    el("div", { class: "sub" }, sub));
}

function savedTile(totals) {
  if (!totals.saved && totals.would_save) {
    const share = percent(totals.would_save / totals.tokens_before);
    return tile("Tokens that would be saved", short(totals.would_save), `${share} of what clients sent; observe mode changes nothing`);
  }
  const share = totals.tokens_before ? percent(totals.saved / totals.tokens_before) : "0 %";
  return tile("Tokens saved", short(totals.saved), `${share} of ${short(totals.tokens_before)} that clients sent`, totals.saved ? "good" : "");
}

function reuseTile(totals) {
  const summaries = totals.reused + totals.built;
  if (!summaries) return tile("Summaries reused", "–", "no summary yet");
  return tile("Summaries reused", percent(totals.reused / summaries), `${exact(totals.reused)} reused, ${exact(totals.built)} written`);
}

// A page that only shows savings is green while nothing is done: what was left alone is told too.
function leftTile(totals) {
  const left = totals.unmeasured + totals.without_window + totals.failed_open;
  const parts = [];
  if (totals.unmeasured) parts.push(`${exact(totals.unmeasured)} not measured`);
  if (totals.without_window) parts.push(`${exact(totals.without_window)} without a known window`);
  if (totals.failed_open) parts.push(`${exact(totals.failed_open)} failed open`);
  return tile("Chats left unguarded", exact(left), parts.join(", ") || "every chat was measured against a window", left ? "warn" : "");
}

function waitTile(totals) {
  if (!totals.waits) return tile("Waits for summaries", "0", "no chat had to wait");
  return tile("Waits for summaries", exact(totals.waits), `${duration(totals.waited_ms / totals.waits)} each, on average`);
}

function chatsTile(totals) {
  const parts = [`${exact(totals.changed)} changed`, `${exact(totals.failed)} failed`];
  if (totals.commands) parts.push(`${exact(totals.commands)}\u00a0×\u00a0/compact`);
  return tile("Chats", exact(totals.chats), parts.join(", "));
}

export function showTotals(totals) {
  byId("tiles").replaceChildren(
    savedTile(totals),
    chatsTile(totals),
    tile("Compactions", exact(totals.compactions), totals.replays ? `${count(totals.replays, "replay")} after “too long”` : "each starts a new prefix"),
    reuseTile(totals),
    waitTile(totals),
    leftTile(totals));
}

export function showState(state, since) {
  const chips = [chip(`since ${date(since)}`)];
  if (state.workers > 1) chips.push(chip(count(state.workers, "process", "processes")));
  if (state.mode !== "on") chips.push(chip(`mode ${state.mode}`, "warn"));
  chips.push(state.store_degraded ? chip("store degraded: memory only", "bad") : chip("store ok", "good"));
  chips.push(state.open_breakers ? chip(`${count(state.open_breakers, "upstream")} left alone`, "bad") : chip("upstreams ok", "good"));
  if (state.models_without_summaries) chips.push(chip("summaries are not found again: folds without a model", "warn"));
  if (state.stopping) chips.push(chip("stopping", "warn"));
  byId("state").replaceChildren(...chips.map((each) => el("li", {}, each)));
}
