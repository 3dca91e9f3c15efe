// Two charts by uPlot; colours come from the style sheet, so that both schemes are right.

import { byId } from "./dom.js";
import { axis, exact } from "./format.js";

const HEIGHT = 210;
const LATEST = 60;
const drawn = new Map();

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function axes(more = {}) {
  const common = { stroke: colour("soft"), font: "12px system-ui, sans-serif", grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  return [{ ...common, grid: { show: false }, size: 28, ...more }, { ...common, size: 52, values: (_, ticks) => ticks.map(axis) }];
}

function draw(id, options, data) {
  const place = byId(id);
  const known = drawn.get(id);
  if (known && known.signature === options.signature) return known.chart.setData(data);
  if (known) known.chart.destroy();
  const width = Math.max(240, place.clientWidth);
  const chart = new uPlot({ width, height: HEIGHT, padding: [8, 8, 0, 0], ...options }, data, place);
  drawn.set(id, { chart, signature: options.signature });
}

// A dashed line and a mark at each point where the conversation was compacted anew.
function markBreaks(breaks) {
  return (chart) => {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("break");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    for (const at of breaks()) {
      const x = Math.round(chart.valToPos(at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const side = 5 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(x - side, bbox.top);
      ctx.lineTo(x + side, bbox.top);
      ctx.lineTo(x, bbox.top + 1.6 * side);
      ctx.fill();
    }
    ctx.restore();
  };
}

// Where no pointer is, the figures below the chart are those of the newest request.
function showNewest(chart) {
  if (chart.cursor.idx === null || chart.cursor.idx === undefined) chart.setLegend({ idx: chart.data[0].length - 1 }, false);
}

let breaks = [];

export function drawTimeline(rows) {
  breaks = rows.flatMap((row, index) => (row.is_break ? [index + 1] : []));
  const window = rows.map((row) => row.window || null);
  const data = [rows.map((_, index) => index + 1), rows.map((row) => row.tokens[0]), rows.map((row) => row.tokens[1]), window];
  const value = (_, tokens) => (tokens === null || tokens === undefined ? "–" : exact(tokens));
  const points = { show: rows.length <= 40, size: 5, fill: colour("panel") };
  draw("timeline", {
    signature: `timeline ${points.show}`,
    scales: { x: { time: false, range: (_, least, most) => [least - 0.5, most + 0.5] }, y: { range: (_, __, most) => [0, Math.max(10, most * 1.08)] } },
    axes: axes({ incrs: [1, 2, 5, 10, 20, 50, 100, 200], values: (_, ticks) => ticks.map((tick) => `#${tick}`) }),
    series: [
      { label: "request", value: (_, index) => (index ? `#${index}` : "–") },
      { label: "from the client", stroke: colour("soft"), dash: [5, 4], width: 1.5, points, value },
      { label: "sent", stroke: colour("accent"), fill: `${colour("accent")}2b`, width: 2, points, value },
      { label: "window", stroke: colour("window"), width: 1.5, points: { show: false }, value },
    ],
    hooks: { draw: [markBreaks(() => breaks), showNewest], setCursor: [showNewest] },
  }, data);
}

export function drawLatest(rows) {
  const latest = rows.filter((row) => row.tokens[0] !== null && !row.command).slice(-LATEST);
  const data = [latest.map((_, index) => index), latest.map((row) => row.tokens[0]), latest.map((row) => Math.min(row.tokens[0], row.tokens[1] ?? row.tokens[0]))];
  const bars = uPlot.paths.bars({ size: [0.7, 26], radius: 0.15 });
  const bar = (name) => ({ stroke: colour(name), fill: colour(name), width: 0, paths: bars, points: { show: false } });
  draw("latest", {
    signature: "latest",
    padding: [8, 8, 8, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false, range: () => [-0.7, Math.max(11, latest.length) - 0.3] }, y: { range: (_, __, most) => [0, Math.max(10, most * 1.05)] } },
    axes: axes({ show: false }),
    series: [{}, bar("before"), bar("accent")],
  }, data);
}

export function fitCharts() {
  for (const [id, { chart }] of drawn) chart.setSize({ width: Math.max(240, byId(id).clientWidth), height: HEIGHT });
}

export function forgetCharts() {
  for (const { chart } of drawn.values()) chart.destroy();
  drawn.clear();
}
