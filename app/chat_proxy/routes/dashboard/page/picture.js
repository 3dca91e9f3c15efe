// A prompt before and after, as two bars against the window: what became of its parts.

import { el } from "./dom.js";
import { exact, percent } from "./format.js";

const PARTS = [
  ["instructions", "instructions"], ["tools", "tools"], ["folded", "folded into a summary"], ["short", "shortened"],
  ["left_out", "left out"], ["whole", "whole"], ["answer", "room for the answer"],
];
const SIDES = ["From the client", "Sent"];

const sum = (parts) => PARTS.reduce((all, [name]) => all + parts[name], 0);
const prompt = (parts) => sum(parts) - parts.answer;

function bar(parts, whole, window) {
  const pieces = PARTS.filter(([name]) => parts[name]).map(([name, label]) => {
    const piece = el("i", { class: `part part-${name}`, title: `${label}: ${exact(parts[name])} tokens` });
    piece.style.width = `${(100 * parts[name]) / whole}%`;
    return piece;
  });
  const line = el("div", { class: "parts" }, ...pieces);
  if (window) {
    const mark = el("b", { title: `window: ${exact(window)} tokens` });
    mark.style.left = `${(100 * window) / whole}%`;
    line.append(mark);
  }
  return line;
}

const figure = (tokens) => (tokens ? exact(tokens) : "–");

function legend([before, after]) {
  const used = PARTS.filter(([name]) => before[name] || after[name]);
  return el("ul", { class: "legend" }, ...used.map(([name, label]) => el("li", {},
    el("span", { class: `key part-${name}` }), `${label} `, el("span", { class: "soft" }, `${figure(before[name])} → ${figure(after[name])}`))));
}

export function picture(detail) {
  const window = detail.window ?? 0;
  const whole = Math.max(window, ...detail.parts.map(sum), 1);
  const bars = detail.parts.map((parts, side) => {
    const share = window ? `, ${percent(prompt(parts) / window)} of the window` : "";
    return el("div", { class: "part-row" }, el("span", { class: "soft" }, `${SIDES[side]}: ${exact(prompt(parts))} tokens${share}`), bar(parts, whole, window));
  });
  return el("section", { class: "picture" }, ...bars, legend(detail.parts));
}
