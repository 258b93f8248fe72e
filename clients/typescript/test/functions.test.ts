import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { spawnSync } from "node:child_process";
import test from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Answer, type Case, type Progress, type Question, VerdictNotReached } from "touchstone-evals";

import { CASES, doubles, evaluating, folder, right } from "./support.js";

test("an error leaves the task unjudged and is kept", async (t) => {
  const broken = (question: string): string => {
    if (question.includes("France")) {
      throw new RangeError("no France");
    }
    return right(question);
  };
  const result = await evaluating(t)({ cases: CASES, agent: broken });
  assert.equal(result.verdict, "inconclusive");
  const [failure] = result.failures;
  assert.deepEqual([failure?.id, failure?.outcome, failure?.reason, failure?.score], ["france", "unjudged", "agent_failed", null]);
  assert.ok(failure?.error instanceof RangeError && failure.error.stack?.includes("broken"));
  assert.match(String(failure), /threw {5}RangeError: no France/);
  result.assertPassed({ allowInconclusive: true });
  assert.throws(() => result.assertPassed(), VerdictNotReached);
});

test("what JSON would lose is an error of the task", async (t) => {
  const answers: Record<string, unknown> = { nan: { n: NaN }, map: new Map(), big: 1n, call: () => 1, large: "x".repeat(9 << 20) };
  const cases = Object.keys(answers).map((name) => ({ id: name, input: name, expected: "x" }));
  const result = await evaluating(t)({ cases, agent: (name) => answers[name] });
  assert.deepEqual(Object.fromEntries(result.failures.map((failure) => [failure.id, (failure.error as Error).name])), {
    nan: "TypeError",
    map: "TypeError",
    big: "TypeError",
    call: "TypeError",
    large: "RangeError",
  });
});

test("answers may be large, structured, or contain any character", async (t) => {
  const large = "é\u2028\n😀".repeat(400_000);
  const answers: Record<string, unknown> = { text: large, object: { city: "Zürich", tags: ["a", "b"] } };
  const cases: Case<string>[] = [
    { id: "text", input: "text", expected: large },
    { id: "object", input: "object", expected: { tags: ["a", "b"], city: "Zürich" } },
  ];
  const result = await evaluating(t)({ cases, agent: (name) => answers[name], lenient: true });
  assert.ok(result.passed, result.summary());
});

test("eight tasks run at once, in the async context of the caller", async (t) => {
  const storage = new AsyncLocalStorage<string>();
  const seen = new Set<string | undefined>();
  let waiting = 0;
  let open = (): void => {};
  const together = new Promise<void>((resolve) => (open = resolve));
  const agent = async (n: number): Promise<string> => {
    waiting += 1;
    if (waiting === 8) {
      open();
    }
    await together;
    seen.add(storage.getStore());
    return String(n * 2);
  };
  const evaluate = evaluating(t);
  const result = await storage.run("context", () => evaluate({ cases: doubles(8), agent, lenient: true }));
  assert.ok(result.passed, result.summary());
  assert.deepEqual([...seen], ["context"]);
});

test("a function that takes too long is limited, and told when the evaluation has ended", async (t) => {
  let ended = (): void => {};
  const told = new Promise<void>((resolve) => (ended = resolve));
  const agent = async (n: number, { signal }: Question<number>): Promise<string> => {
    if (n === 1) {
      signal.addEventListener("abort", () => ended());
      await sleep(600_000, undefined, { signal });
    }
    return String(n * 2);
  };
  const result = await evaluating(t)({ cases: doubles(3), agent, timeoutMs: 3000, concurrency: 1 });
  assert.deepEqual(result.failures.map((failure) => [failure.input, failure.outcome]), [[1, "unjudged"]]);
  await told;
});

test("whole questions and answers", async (t) => {
  const asked: Question[] = [];
  const agent = (input: string, question: Question): unknown => {
    asked.push(question);
    if (input === "refuse") {
      return new Answer({ refused: true });
    }
    return question.messages.length < 3
      ? new Answer({ toolCalls: [{ tool: "crm:find", arguments: { id: 7 } }] })
      : new Answer({ output: "found", inputTokens: 100, outputTokens: 5 });
  };
  const cases = [{ id: "find", input: "find", expected: "found" }, { id: "refuse", input: "refuse", expected: "x" }];
  const result = await evaluating(t)({ cases, agent });
  assert.equal(asked[0]?.messages.at(-1)?.["role"], "user");
  const outcomes = Object.fromEntries(result.tasks.map((task) => [task.id, task.outcome]));
  assert.deepEqual(outcomes, { find: "passed", refuse: "failed" });
  const results = asked.flatMap((question) => question.messages).filter((message) => message["role"] === "tool");
  assert.equal(results.length, 1);
});

test("progress is streamed", async (t) => {
  const seen: Progress[] = [];
  let first: (() => void) | undefined;
  const reported = new Promise<void>((resolve) => (first = resolve));
  const agent = async (question: string): Promise<string> => {
    if (question.includes("Norway")) {
      await reported;
    }
    return right(question);
  };
  const onProgress = (progress: Progress): void => {
    seen.push(progress);
    first?.();
  };
  const result = await evaluating(t)({ cases: CASES, agent, onProgress });
  assert.deepEqual(seen.map((progress) => progress.done), [1, 2, 3]);
  const last = seen.at(-1);
  assert.deepEqual(last, { task: "norway", outcome: "passed", score: 1, done: 3, total: 3, runId: result.runId, trial: 1 });
});

test("an error of onProgress ends the run", async (t) => {
  let calls = 0;
  const agent = async (n: number): Promise<string> => {
    calls += 1;
    await sleep(20);
    return String(n * 2);
  };
  const onProgress = (): Promise<void> => Promise.reject(new Error("enough"));
  await assert.rejects(evaluating(t)({ cases: doubles(400), agent, onProgress, concurrency: 1 }), /^Error: enough$/);
  assert.ok(calls < 400);
});

test("a signal cancels the run", async (t) => {
  const stop = new AbortController();
  const agent = async (_: string, { signal }: Question<string>): Promise<string> => {
    stop.abort(new Error("stopped by the test"));
    await sleep(600_000, undefined, { signal }).catch(() => undefined);
    return "never";
  };
  const evaluate = evaluating(t);
  await assert.rejects(evaluate({ cases: CASES, agent, signal: stop.signal }), /^Error: stopped by the test$/);
  await assert.rejects(evaluate({ cases: CASES, agent, signal: stop.signal }), /^Error: stopped by the test$/);
});

test("nothing is printed, and the process ends by itself", (t) => {
  const script = `
    import { evaluate } from "touchstone-evals";
    await evaluate({ cases: [{ input: "a", expected: "a" }], agent: (input) => input, data: process.argv[1] });
  `;
  const options = { encoding: "utf8", timeout: 60_000, cwd: import.meta.dirname } as const;
  const done = spawnSync(process.execPath, ["--input-type=module", "--eval", script, "--", folder(t)], options);
  assert.deepEqual([done.status, done.stdout, done.stderr], [0, "", ""]);
});

test("evaluations in one folder run at once, each with its own function", async (t) => {
  const evaluate = evaluating(t);
  const cases = doubles(20);
  const factors = Array.from({ length: 12 }, (_, index) => index % 3);
  const warnings: string[] = [];
  const warned = (warning: Error): number => warnings.push(String(warning));
  process.on("warning", warned);
  t.after(() => process.removeListener("warning", warned));
  const results = await Promise.all(factors.map((factor) => evaluate({ cases, agent: (n) => String(n * factor) })));
  // Zero times anything is right once.
  assert.deepEqual(results.map((result) => result.count("passed")), factors.map((factor) => (factor === 2 ? 20 : 1)));
  assert.deepEqual(warnings, []);
});
