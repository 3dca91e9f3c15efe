// Numbers, times and words as people read them.

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export const exact = (number) => whole.format(number);
export const time = (seconds) => clock.format(new Date(seconds * 1000));
export const date = (seconds) => day.format(new Date(seconds * 1000));

const scaled = (number, unit, sign) => `${+(number / unit).toPrecision(3)} ${sign}`;

export function axis(number) {
  if (number < 1_000) return String(number);
  return number < 1_000_000 ? scaled(number, 1_000, "k") : scaled(number, 1_000_000, "M");
}

export const short = (number) => (number < 10_000 ? exact(number) : axis(number));

export function percent(share) {
  const value = share * 100;
  return `${Math.abs(value) < 10 && value ? value.toFixed(1) : Math.round(value)} %`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  return ms < 1000 ? `${Math.round(ms)}\u00a0ms` : `${(ms / 1000).toFixed(1)}\u00a0s`;
}

export const count = (number, one, many = `${one}s`) => `${exact(number)} ${number === 1 ? one : many}`;

export const stageName = (stage) => stage.replaceAll("_", " ");

function commandOutcome(row) {
  if (row.compaction === "failed-open") return ["no summary written", "bad"];
  const words = { built: ["summary written", "good"], reused: ["summary there already", "good"] };
  return words[row.compaction] ?? ["nothing to fold", ""];
}

export function outcomeOf(row) {
  if (row.command) return commandOutcome(row);
  if (row.tokens[0] === null && row.upstream_ms === null) return ["not sent", ""];
  if (row.mode !== "off" && row.compaction === "off") return ["history at the upstream", ""];
  if (row.tokens[0] === null) return row.mode === "off" ? ["off", ""] : ["not measured", "warn"];
  const would = row.mode === "observe" && row.stages.length ? "would be " : "";
  const names = {
    none: ["unchanged", ""], trimmed: [`${would}trimmed`, "accent"], reused: [`${would}summary reused`, "good"],
    built: [`${would}summarised`, "good"], "failed-open": ["failed open", "bad"], off: ["off", ""],
  };
  return names[row.compaction] ?? [row.compaction, ""];
}

export const isTrouble = (row) =>
  row.status >= 400 || row.status === 0 || row.code !== "" || row.compaction === "failed-open" ||
  row.failed_stages.length > 0 || row.replays > 0 || Boolean(row.reason);
