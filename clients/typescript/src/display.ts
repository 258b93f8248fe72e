/* Results as text. */
import type { Estimate, Failure, Result } from "./result.js";
import type { Outcome } from "./types.js";

const MOST_CHARACTERS = 2000;
const SHOWN_FAILURES = 10;
const SHOWN_NOTES = 3;
const OUTCOMES: readonly Outcome[] = ["passed", "failed", "unjudged"];

function value(given: unknown): string {
  const text = typeof given === "string" ? given : (JSON.stringify(given) ?? "nothing");
  return text.length <= MOST_CHARACTERS ? text : `${text.slice(0, MOST_CHARACTERS)}…`;
}

function estimateText({ value, low, high }: Estimate): string {
  if (low === null || high === null) {
    return value.toFixed(2);
  }
  return `${value.toFixed(2)} [${Math.max(low, 0).toFixed(2)}, ${Math.min(high, 1).toFixed(2)}]`;
}

export function headline(result: Result): string {
  const counts = OUTCOMES.map((outcome) => [result.count(outcome), outcome] as const).filter(([count]) => count > 0);
  const text = counts.map(([count, outcome]) => `${count} ${outcome}`).join(", ");
  return `${result.verdict.toUpperCase()}  score ${estimateText(result.score)} (pass score ${result.passScore}), ${text}`;
}

export function failureText(failure: Failure): string {
  const lines = [`${failure.id}: ${failure.outcome}${failure.reason === null ? "" : ` (${failure.reason})`}`];
  lines.push(`  input     ${value(failure.input)}`);
  if (failure.expected !== null && failure.expected !== undefined) {
    lines.push(`  expected  ${value(failure.expected)}`);
  }
  if (failure.outcome === "failed" || (failure.actual !== null && failure.actual !== undefined)) {
    lines.push(`  actual    ${value(failure.actual)}`);
  }
  for (const assertion of failure.assertions) {
    if (assertion["holds"] !== true) {
      lines.push(`  assertion ${value(assertion["expected"])}: ${value(assertion["found"])}`);
    }
  }
  if (failure.error !== undefined) {
    lines.push(`  threw     ${String(failure.error)}`);
  }
  return lines.join("\n");
}

function signed(number: number): string {
  return `${number < 0 ? "" : "+"}${number.toFixed(2)}`;
}

export function summary(result: Result): string {
  const lines = [headline(result), ...result.reasons.map((reason) => `  ${reason}`)];
  if (result.comparison !== null) {
    const { difference, verdict, broke, fixed } = result.comparison;
    const { low, high } = difference;
    const interval = low === null || high === null ? "" : ` [${signed(low)}, ${signed(high)}]`;
    lines.push(`  against the baseline ${signed(difference.value)}${interval}: ${verdict.replaceAll("_", " ")}`);
    for (const [turn, ids] of Object.entries({ broke, fixed })) {
      if (ids.length > 0) {
        lines.push(`  ${turn}: ${ids.join(", ")}`);
      }
    }
  }
  if (result.comparison === null) {
    lines.push(...result.notes.filter((note) => note.startsWith("no comparison")).map((note) => `  ${note}`));
  }
  if (result.count("unjudged") > 0) {
    // The program repeats a note for each attempt, such as that of a shell about a missing command.
    lines.push(...[...new Set(result.notes)].slice(0, SHOWN_NOTES).map((note) => `  note: ${note}`));
  }
  for (const failure of result.failures.slice(0, SHOWN_FAILURES)) {
    lines.push("", failureText(failure));
  }
  const more = result.failures.length - SHOWN_FAILURES;
  if (more > 0) {
    lines.push("", `and ${more} more in result.failures`);
  }
  return lines.join("\n");
}
