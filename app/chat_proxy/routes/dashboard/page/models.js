// The table of models, and what the stages did.

import { byId, chip, el } from "./dom.js";
import { exact, percent, short, stageName } from "./format.js";

function estimate(model) {
  if (model.error === null) return el("span", { class: "soft" }, "no report yet");
  const kind = model.error <= 0.03 ? "good" : model.error <= 0.1 ? "" : "warn";
  const side = model.bias >= 0 ? "above" : "below";
  return chip(`± ${percent(model.error)}`, kind, `${percent(Math.abs(model.bias))} ${side} on average, ${exact(model.estimates)} reports`);
}

function line(model) {
  const window = model.window ? short(model.window) : chip("unknown", "warn");
  return el("tr", {},
    el("td", { title: model.model }, model.model || "(no model)"),
    el("td", {}, model.wire),
    el("td", { class: "number", title: `${exact(model.changed)} changed` }, exact(model.chats)),
    el("td", { class: "number", title: model.window_source }, window),
    el("td", { class: "number" }, short(model.saved)),
    el("td", { class: "number" }, estimate(model)));
}

function bar(share) {
  const line = el("span", { class: "bar-line" });
  line.style.width = percent(share).replace(" ", "");
  return line;
}

export function showStages(stages) {
  const found = Object.entries(stages);
  const most = Math.max(...found.map(([, number]) => number));
  const lines = found.sort((one, other) => other[1] - one[1]).flatMap(([stage, number]) =>
    [el("span", {}, stageName(stage)), bar(number / most), el("span", { class: "number" }, exact(number))]);
  byId("stages").replaceChildren(...(lines.length ? lines : [el("span", { class: "soft" }, "no stage has changed anything yet")]));
}

export function showModels(models) {
  byId("models").tBodies[0].replaceChildren(...models.slice(0, 12).map(line));
}
