// The page's wiring: one stream of documents in, five views out.

import { byId } from "./dom.js";
import { drawLatest, fitCharts, forgetCharts } from "./charts.js";
import { choose, showConversations } from "./conversations.js";
import { showDetail } from "./detail.js";
import { showModels, showStages } from "./models.js";
import { addRequests, chooseFilter, setUpRequests } from "./requests.js";
import { follow, keepKey, keyInTab } from "./stream.js";
import { showState, showTotals } from "./tiles.js";

const ROWS = 500;
let rows = [];
const known = new Set();

function showCharts() {
  showConversations(rows);
  drawLatest(rows);
}

function onDocument(document) {
  byId("main").hidden = false;
  const fresh = document.rows.filter((row) => !known.has(row.id));
  rows = [...rows, ...fresh].sort((one, other) => one.at - other.at).slice(-ROWS);
  known.clear();
  for (const row of rows) known.add(row.id);
  showTotals(document.totals);
  showState(document.state, document.since);
  showModels(document.models);
  showStages(document.totals.stages);
  addRequests(fresh);
  showCharts();
}

function onState(state) {
  const live = byId("live");
  live.className = `live ${state}`;
  live.textContent = state === "on" ? "live" : "connection lost, trying again";
}

function askForKey(hint) {
  byId("main").hidden = true;
  byId("live").textContent = "locked";
  byId("key-form").hidden = false;
  if (hint) {
    byId("key-hint").textContent = hint;
    byId("key-hint").className = "bad";
  }
  byId("key").focus();
}

function start() {
  byId("key-form").hidden = true;
  follow("dashboard/events", { onDocument, onState, onRefused: () => askForKey("That is not the key.") });
}

function isRefused() {
  return performance.getEntriesByType("navigation")[0]?.responseStatus === 401;
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepKey(byId("key").value);
  byId("key").value = "";
  start();
});
byId("conversation").addEventListener("change", (event) => {
  choose(event.target.value);
  showConversations(rows);
});
byId("filter").addEventListener("change", (event) => chooseFilter(event.target.value, rows));
byId("detail-close").addEventListener("click", () => byId("detail").close());
byId("detail").addEventListener("click", (event) => {
  if (event.target === byId("detail")) byId("detail").close();
});
addEventListener("resize", fitCharts);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  forgetCharts();
  if (rows.length) showCharts();
});
setUpRequests(showDetail);
if (isRefused() && !keyInTab()) askForKey("");
else start();
