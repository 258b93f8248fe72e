import { failureText, headline, summary } from "./display.js";
import { VerdictNotReached } from "./errors.js";
import type { Document, Outcome, Verdict } from "./types.js";

/** A number with its confidence interval. `low` and `high` are `null` if it has none. */
export interface Estimate {
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly method: string | null;
}

/** The outcome of one task in one trial. */
export interface Task {
  readonly id: string;
  readonly outcome: Outcome;
  /** `null` if the task is unjudged. */
  readonly score: number | null;
  /** Why it did not pass, as an error code. */
  readonly reason: string | null;
  readonly latencyMs: number | null;
  readonly costUsd: number | null;
  readonly trial: number;
}

/** A task that failed or is unjudged, with its content. */
export class Failure {
  readonly id: string;
  readonly outcome: Outcome;
  readonly score: number | null;
  readonly input: unknown;
  readonly expected: unknown;
  readonly actual: unknown;
  readonly reason: string | null;
  readonly differences: readonly Readonly<Document>[];
  /** Each assertion of the task, with what it expected and found. */
  readonly assertions: readonly Readonly<Document>[];
  readonly transcript: readonly Readonly<Document>[];
  /** What the agent or the judge threw in this process. */
  readonly error: unknown;
  readonly trial: number;

  /** @internal */
  constructor(document: Document, trial: number, error: unknown) {
    const { expected, outcome } = document;
    const isMatch = expected !== null && typeof expected === "object" && Object.keys(expected).sort().join() === "strategy,value";
    this.id = document["taskId"];
    this.outcome = outcome;
    this.score = outcome === "unjudged" ? null : (document["score"] ?? null);
    this.input = document["input"];
    this.expected = isMatch ? expected.value : expected;
    this.actual = document["actual"];
    this.reason = document["reason"] ?? null;
    this.differences = document["differences"] ?? [];
    this.assertions = document["assertions"] ?? [];
    this.transcript = document["transcript"] ?? [];
    this.error = error;
    this.trial = trial;
  }

  toString(): string {
    return failureText(this);
  }
}

/** A task that changed from the baseline. */
export interface Change {
  readonly id: string;
  /** `broke`, `fixed`, or another change that the program names. */
  readonly turn: string;
  readonly baseline: number | null;
  readonly candidate: number | null;
}

/** The paired comparison with the baseline. */
export interface Comparison {
  /** The file, if the baseline is a log of Inspect. */
  readonly baselineRunId: string;
  /** The score of this run minus that of the baseline, over the same tasks. */
  readonly difference: Estimate;
  /** `regressed`, `not_worse` or `inconclusive` (docs/statistics.md). */
  readonly verdict: string;
  readonly changes: readonly Change[];
  /** Ids of tasks that passed before, and of tasks that pass now. */
  readonly broke: readonly string[];
  readonly fixed: readonly string[];
  /** The report of the program. */
  readonly report: Readonly<Document>;
}

export interface ResultParts {
  readonly runIds: readonly [string, ...string[]];
  readonly verdict: Verdict;
  readonly reasons: readonly string[];
  readonly score: Estimate;
  readonly passRate: Estimate | null;
  readonly passScore: number;
  readonly tasks: readonly Task[];
  readonly failures: readonly Failure[];
  readonly comparison: Comparison | null;
  readonly costUsd: number | null;
  readonly durationMs: number | null;
  readonly notes: readonly string[];
  readonly report: Readonly<Document>;
  readonly statistics: Readonly<Document>;
}

/** The result of an evaluation. */
export class Result {
  readonly runIds: readonly [string, ...string[]];
  readonly verdict: Verdict;
  /** Why the verdict is not a pass. */
  readonly reasons: readonly string[];
  readonly score: Estimate;
  readonly passRate: Estimate | null;
  readonly passScore: number;
  readonly tasks: readonly Task[];
  readonly failures: readonly Failure[];
  /** `null` without a baseline, or if it could not be compared; `notes` say why. */
  readonly comparison: Comparison | null;
  /** `null` if the cost is unknown. */
  readonly costUsd: number | null;
  readonly durationMs: number | null;
  readonly notes: readonly string[];
  /** The report of the program (the first run's, if there are trials). */
  readonly report: Readonly<Document>;
  /** All statistics (docs/statistics.md). */
  readonly statistics: Readonly<Document>;

  /** @internal */
  constructor(parts: ResultParts) {
    this.runIds = parts.runIds;
    this.verdict = parts.verdict;
    this.reasons = parts.reasons;
    this.score = parts.score;
    this.passRate = parts.passRate;
    this.passScore = parts.passScore;
    this.tasks = parts.tasks;
    this.failures = parts.failures;
    this.comparison = parts.comparison;
    this.costUsd = parts.costUsd;
    this.durationMs = parts.durationMs;
    this.notes = parts.notes;
    this.report = parts.report;
    this.statistics = parts.statistics;
    // `console.log` would show the whole report.
    Object.defineProperty(this, Symbol.for("nodejs.util.inspect.custom"), { value: () => this.toString() });
  }

  get runId(): string {
    return this.runIds[0];
  }

  get passed(): boolean {
    return this.verdict === "pass";
  }

  count(outcome: Outcome): number {
    return this.tasks.filter((task) => task.outcome === outcome).length;
  }

  /** Throws `VerdictNotReached` unless the verdict is a pass, or an inconclusive one that is allowed. */
  assertPassed({ allowInconclusive = false }: { readonly allowInconclusive?: boolean } = {}): void {
    if (!this.passed && !(allowInconclusive && this.verdict === "inconclusive")) {
      throw new VerdictNotReached(this.summary(), this);
    }
  }

  /** The scorecard and the failures as text. */
  summary(): string {
    return summary(this);
  }

  toString(): string {
    return `Result ${headline(this)}, ${this.runId}`;
  }
}

export function estimate(found: Document | null | undefined): Estimate | null {
  if (found?.["value"] === null || found?.["value"] === undefined) {
    return null;
  }
  return { value: found["value"], low: found["low"] ?? null, high: found["high"] ?? null, method: found["method"] ?? null };
}

export function tasksOf(report: Document, trial: number): Task[] {
  const numbers = new Map<string, Document>();
  for (const task of report["summary"].tasks as Document[]) {
    numbers.set(task["taskId"], task);
  }
  return (report["tasks"] as Document[]).map((task) => {
    const found = numbers.get(task["taskId"]) ?? {};
    return {
      id: task["taskId"],
      outcome: task["outcome"],
      score: task["outcome"] === "unjudged" ? null : (found["score"] ?? null),
      reason: task["reason"] ?? null,
      latencyMs: found["latencyMs"] ?? null,
      costUsd: found["costUsd"] ?? null,
      trial,
    };
  });
}

export function comparisonOf(report: Document, baselineRunId: string): Comparison | null {
  if (report["score"] == null) {
    return null; // No task was judged in both.
  }
  const { difference, low, high } = report["score"] as Document;
  const changes = ((report["changes"] ?? []) as Document[]).map((change) => ({
    id: change["taskId"] as string,
    turn: change["turn"] as string,
    baseline: change["baseline"]?.score ?? null,
    candidate: change["candidate"]?.score ?? null,
  }));
  const turned = (turn: string): string[] => changes.filter((change) => change.turn === turn).map((change) => change.id);
  return {
    baselineRunId,
    difference: { value: difference, low: low ?? null, high: high ?? null, method: null },
    verdict: report["regression"]?.verdict ?? "inconclusive",
    changes,
    broke: turned("broke"),
    fixed: turned("fixed"),
    report,
  };
}
