/* Turns cases into a suite that the program reads (docs/evaluate-your-agent.md). */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { InvalidCases } from "./errors.js";
import { stringify } from "./json.js";
import type { Case, Document, Match } from "./types.js";

/** The name of the assertion that a judge in this process decides. */
const CHECK = "judge";
const TASK_ID = /^[a-z0-9][a-z0-9-]*$/;
const KNOWN = ["input", "expected", "id", "match", "rubric", "assertions", "threshold", "tags"];

/** The text as a part of an id: lower-case letters, digits and hyphens. */
export function slug(text: string): string {
  const words = text.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return words.replace(/^-+/, "").slice(0, 60).replace(/-+$/, "") || "agent";
}

export interface SuiteOptions {
  readonly name: string;
  readonly match: Match;
  readonly passScore: number | undefined;
  /** Whether a judge in this process decides about cases without a rubric and assertions. */
  readonly judged: boolean;
}

/** Writes cases as a suite and its scoring document, and returns the path of the suite. */
export async function writeSuite(cases: readonly Case[], folder: string, options: SuiteOptions): Promise<string> {
  const { suite, scoring } = suiteOf(cases, options);
  const file = join(folder, `${options.name}.json`);
  await writeFile(file, json(suite));
  if (scoring !== undefined) {
    await writeFile(join(folder, `${options.name}.scoring.json`), json(scoring));
  }
  return file;
}

function json(document: Document): string {
  try {
    return stringify(document);
  } catch (cause) {
    throw new InvalidCases(`a case is not JSON: ${(cause as Error).message}`, {
      remedy: "use only strings, numbers, booleans, null, arrays and plain objects",
      cause,
    });
  }
}

function suiteOf(cases: readonly Case[], { name, match, passScore, judged }: SuiteOptions): { suite: Document; scoring?: Document } {
  if (!Array.isArray(cases)) {
    throw new InvalidCases(`cases must be a path or an array, got ${typeof cases}`, { remedy: "pass [{ input, expected }, …]" });
  }
  if (cases.length === 0) {
    throw new InvalidCases("there are no cases", { remedy: "pass at least one, such as { input, expected }" });
  }
  const suiteId = `private.node.evals.${name}`;
  const positions = new Map<string, number>();
  const entries: Document = {};
  const tasks = cases.map((given, index) => {
    check(given, index);
    const task = given.id ?? `case-${index + 1}`;
    if (typeof task !== "string") {
      throw new InvalidCases(`case ${index}: id must be a string, got ${JSON.stringify(task)}`, {
        remedy: `use ${JSON.stringify(slug(String(task)))}`,
      });
    }
    if (!TASK_ID.test(task)) {
      throw new InvalidCases(`case ${index}: the id ${JSON.stringify(task)} may have only lower-case letters, digits and hyphens`, {
        remedy: `use ${JSON.stringify(slug(task))}`,
      });
    }
    const before = positions.get(task);
    if (before !== undefined) {
      throw new InvalidCases(`cases ${before} and ${index} have the same id ${JSON.stringify(task)}`, {
        remedy: "give each case its own id, or none",
      });
    }
    positions.set(task, index);
    const { expected, entry } = expectation(given, index, match, judged);
    if (given.tags !== undefined && given.tags.length > 0) {
      entry["tags"] = given.tags;
    }
    if (Object.keys(entry).length > 0) {
      entries[task] = entry;
    }
    return { taskId: task, input: given.input, expected };
  });
  const modes = tasks.some((task) => task.expected["kind"] === "rubric") ? ["golden", "rubric"] : ["golden"];
  const suite: Document = { suiteId, version: "0.1.0", modes, tasks };
  if (passScore !== undefined) {
    suite["thresholds"] = { passScore };
  }
  return Object.keys(entries).length > 0 ? { suite, scoring: { scoringVersion: 1, suiteId, tasks: entries } } : { suite };
}

function check(given: unknown, index: number): asserts given is Case {
  if (given === null || typeof given !== "object" || Array.isArray(given)) {
    throw new InvalidCases(`case ${index} must be an object, got ${given === null ? "null" : typeof given}`, {
      remedy: "write it as { input, expected }",
    });
  }
  const unknown = Object.keys(given).find((member) => !KNOWN.includes(member));
  if (unknown !== undefined) {
    throw new InvalidCases(`case ${index} has the unknown member ${JSON.stringify(unknown)}`, {
      remedy: `use only ${KNOWN.join(", ")}`,
    });
  }
  if ((given as Partial<Case>).input === undefined) {
    throw new InvalidCases(`case ${index} has no input`, { remedy: "add the member input" });
  }
}

/** The expectation of the suite, and the entry of the scoring document. */
function expectation(given: Case, index: number, usual: Match, judged: boolean): { expected: Document; entry: Document } {
  const entry: Document = {};
  const rubric = given.rubric ?? [];
  const lists = [["rubric", rubric, "criteria"], ["assertions", given.assertions ?? [], "assertions"], ["tags", given.tags ?? [], "tags"]];
  for (const [member, list, what] of lists) {
    if (!Array.isArray(list)) {
      throw new InvalidCases(`case ${index}: ${String(member)} must be a list of ${String(what)}, got ${typeof list}`, {
        remedy: "put it in an array",
      });
    }
  }
  const assertions: Document[] = [...(given.assertions ?? [])];
  if (judged && assertions.length === 0 && rubric.length === 0) {
    assertions.push({ type: "command", name: CHECK, graded: true });
  }
  if (assertions.length > 0) {
    entry["assertions"] = assertions;
  }
  if (given.threshold !== undefined) {
    entry["threshold"] = given.threshold;
  }
  if (rubric.length > 0) {
    if (assertions.length > 0 && !assertions.some((assertion) => assertion["type"] === "expected")) {
      assertions.push({ type: "expected" });
    }
    const criteria = rubric.map((criterion: string) => ({ criterion, weight: 1 / rubric.length }));
    return { expected: { kind: "rubric", rubric: criteria }, entry };
  }
  if (given.expected === undefined) {
    if (assertions.length === 0) {
      throw new InvalidCases(`case ${index} does not say which answers are right`, {
        remedy: "add expected, rubric or assertions, or pass a judge function",
      });
    }
    // Assertions alone decide; the format of a suite needs an expectation nevertheless.
    return { expected: golden("contains", ""), entry };
  }
  const strategy = given.match ?? usual;
  if (strategy !== "exact" && strategy !== "contains") {
    throw new InvalidCases(`case ${index}: match must be "exact" or "contains", got ${JSON.stringify(strategy)}`, { remedy: "correct it" });
  }
  const structured = typeof given.expected === "object" && given.expected !== null;
  return { expected: golden(structured ? "json-match" : strategy, given.expected), entry };
}

function golden(strategy: string, value: unknown): Document {
  return { kind: "golden", match: { strategy, value } };
}
