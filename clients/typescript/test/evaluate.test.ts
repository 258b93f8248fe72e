import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { inspect } from "node:util";

import {
  type EvaluateOptions,
  InvalidArguments,
  InvalidCases,
  type Judged,
  TouchstoneError,
  VerdictNotReached,
} from "touchstone-evals";

import { CASES, CITIES, doubles, evaluating, folder, model, right } from "./support.js";

test("a pass has an interval above the pass score", async (t) => {
  const result = await evaluating(t)({ cases: doubles(20), agent: (n) => String(n * 2), passScore: 0.8 });
  assert.equal(result.verdict, "pass");
  assert.equal(result.passed, true);
  assert.equal(result.score.value, 1);
  assert.ok(result.score.low !== null && result.score.low >= 0.8);
  assert.equal(result.passRate?.method, "wilson");
  assert.equal(result.passScore, 0.8);
  assert.deepEqual([result.failures.length, result.count("passed")], [0, 20]);
  assert.match(result.runId, /^run_/);
  assert.ok(result.durationMs !== null);
  result.assertPassed();
});

test("too few tasks are inconclusive in the result and in its report", async (t) => {
  const few = { cases: doubles(3), agent: (n: unknown) => String(Number(n) * 2), passScore: 0.8 };
  const result = await evaluating(t)(few);
  assert.equal(result.verdict, "inconclusive");
  assert.equal(result.report["verdict"], "inconclusive");
  assert.match(result.reasons[0] ?? "", /the score 1.000 reaches the pass score 0.800, but not with significance/);
  const lenient = await evaluating(t)({ ...few, lenient: true });
  assert.deepEqual([lenient.verdict, lenient.report["verdict"], lenient.reasons], ["pass", "pass", []]);
});

test("a failure has its content and its transcript", async (t) => {
  const result = await evaluating(t)({ cases: CASES, agent: () => "Rome", passScore: 0.9 });
  assert.equal(result.verdict, "fail");
  assert.deepEqual(result.failures.map((failure) => failure.id), ["france", "norway"]);
  const [failure] = result.failures;
  assert.ok(failure);
  assert.deepEqual([failure.outcome, failure.input, failure.expected, failure.actual], ["failed", "Capital of France?", "Paris", "Rome"]);
  assert.equal(failure.differences[0]?.["kind"], "changed");
  const steps = failure.transcript.map((step) => step["step"]);
  assert.ok(steps.includes("started") && steps.includes("answered"));
  assert.match(result.reasons[0] ?? "", /pass score/);
  for (const text of ["FAIL", "expected  Paris", "actual    Rome"]) {
    assert.ok(result.summary().includes(text), text);
  }
  assert.match(inspect(result), /^Result FAIL {2}score 0\.33 .* 1 passed, 2 failed, run_/);
  assert.throws(() => result.assertPassed({ allowInconclusive: true }), (thrown) => {
    return thrown instanceof VerdictNotReached && thrown.result === result && thrown.name === "VerdictNotReached";
  });
});

test("a judge in this process decides", async (t) => {
  const seen: Judged<string>[] = [];
  const judge = async (judged: Judged<string>) => {
    seen.push(judged);
    if (judged.task === "norway") {
      throw new Error("cannot tell");
    }
    const passed = judged.output === judged.expected;
    return { passed, score: passed ? 1 : 0.25, reason: passed ? "as expected" : "another city" };
  };
  const result = await evaluating(t)({ cases: CASES, agent: () => "Paris", judge, passScore: 0.5 });
  assert.deepEqual(new Set(seen.map((judged) => judged.expected)), new Set(Object.values(CITIES)));
  const failures = new Map(result.failures.map((failure) => [failure.id, failure]));
  assert.equal(failures.get("italy")?.score, 0.25);
  assert.match(String(failures.get("italy")), /another city/);
  assert.equal(failures.get("norway")?.outcome, "unjudged");
  assert.equal(String(failures.get("norway")?.error), "Error: cannot tell");
});

test("a judge returns booleans and scores, and nothing else", async (t) => {
  const found: unknown[] = [true, 0.75, 0.25, "yes", 2];
  const cases = found.map((_, input) => ({ input }));
  const result = await evaluating(t)({ cases, agent: String, judge: ({ input }) => found[input] as boolean });
  assert.deepEqual(result.tasks.map((task) => task.score), [1, 0.75, 0.25, null, null]);
  assert.deepEqual(result.failures.slice(1).map((failure) => (failure.error as Error).name), ["TypeError", "RangeError"]);
});

test("a baseline is compared", async (t) => {
  const evaluate = evaluating(t);
  const capitals = (question: string): string => right(question);
  const before = await evaluate({ cases: CASES, agent: capitals });
  const after = await evaluate({ cases: CASES, agent: () => "Rome", name: "capitals", baseline: before });
  assert.equal(after.comparison?.baselineRunId, before.runId);
  assert.deepEqual([after.comparison.broke, after.comparison.fixed], [["france", "norway"], []]);
  assert.ok(Math.abs(after.comparison.difference.value + 2 / 3) < 1e-9);
  assert.match(after.summary(), /broke: france, norway/);
  const again = await evaluate({ cases: CASES, agent: capitals, baseline: "latest" });
  assert.deepEqual(again.comparison?.fixed, ["france", "norway"]);
});

test("the first run has no latest one and says so", async (t) => {
  const evaluate = evaluating(t);
  const result = await evaluate({ cases: CASES, agent: right, baseline: "latest", lenient: true });
  assert.ok(result.passed);
  assert.equal(result.comparison, null);
  assert.match(result.notes.join("\n"), /no comparison: there is no eval run/);
  assert.match(result.summary(), /no comparison: there is no eval run/);
});

test("a signed attestation is a baseline", async (t) => {
  const evaluate = evaluating(t);
  const data = folder(t);
  const before = await evaluate({ cases: CASES, agent: right, data });
  const [file, key] = [join(data, "main.intoto.jsonl"), join(data, "main.pub")];
  for (const given of [[before.runId, "--out", file], ["--public-key", "--out", key]]) {
    execFileSync(process.env["TOUCHSTONE_BIN"] ?? "touchstone", ["--data", data, "attest", ...given], { stdio: "pipe" });
  }
  const after = await evaluate({ cases: CASES, agent: () => "Rome", name: "right", baseline: file, baselineKey: key });
  assert.equal(after.comparison?.baselineRunId, before.runId);
  assert.deepEqual(after.comparison.broke, ["france", "norway"]);
});

test("the identity of a function is its name and version", async (t) => {
  const evaluate = evaluating(t);
  const models: unknown[] = [];
  for (const version of [undefined, undefined, "2'; exit 1 #"]) {
    const result = await evaluate({ cases: CASES.slice(0, 1), agent: right, version });
    assert.equal(result.count("passed"), 1);
    models.push(result.report["agent"].model);
  }
  assert.equal(models[0], models[1]);
  assert.notEqual(models[1], models[2]);
});

test("trials are pooled", async (t) => {
  const result = await evaluating(t)({ cases: CASES, agent: right, trials: 3, passScore: 0.2 });
  assert.deepEqual([result.runIds.length, result.tasks.length, result.statistics["n_trials"]], [3, 9, 9]);
  assert.deepEqual(new Set(result.tasks.map((task) => task.trial)), new Set([1, 2, 3]));
});

test("a model at an endpoint", async (t) => {
  const endpoint = await model(t, "Paris");
  const agent = { url: `${endpoint.url}/v1`, model: "mock", apiKey: "secret-1" };
  const cases = CASES.slice(0, 1);
  const result = await evaluating(t)({ cases, agent, prompt: "Name the city alone.", lenient: true, cache: false });
  assert.ok(result.passed, result.summary());
  assert.match(JSON.stringify(endpoint.requests[0]?.["messages"]), /Name the city alone\./);
  assert.deepEqual(endpoint.keys, ["Bearer secret-1"]);
});

test("a model is the judge of a rubric", async (t) => {
  const endpoint = await model(t, '{"reason": "it is short", "met": true}');
  const judge = { url: `${endpoint.url}/v1`, model: "mock" };
  const cases = [{ id: "write", input: "Write.", rubric: ["is short", "is polite"] }];
  const result = await evaluating(t)({ cases, agent: () => "Hello.", judge, lenient: true });
  assert.ok(result.passed, result.summary());
  assert.equal(endpoint.requests.length, 2);
});

test("a remote agent", async (t) => {
  const endpoint = await model(t, "Paris");
  const evaluate = evaluating(t);
  const options = { cases: CASES.slice(0, 1), agent: `a2a+${endpoint.url}/agent`, lenient: true };
  const result = await evaluate(options);
  assert.ok(result.passed, result.summary());
  assert.equal(endpoint.requests[0]?.["method"], "message/send");
  await assert.rejects(evaluate({ ...options, config: "touchstone.toml" }), /omit config/);
});

test("a command", async (t) => {
  const program = join(folder(t), "agent.mjs");
  writeFileSync(
    program,
    `import { createInterface } from "node:readline";
     for await (const line of createInterface({ input: process.stdin })) {
       console.log(JSON.stringify({ id: JSON.parse(line).id, output: "Paris" }));
     }`,
  );
  const result = await evaluating(t)({ cases: CASES.slice(0, 1), agent: `node ${program}`, lenient: true });
  assert.ok(result.passed, result.summary());
  const missing = await evaluating(t)({ cases: CASES.slice(0, 1), agent: "./missing-agent" });
  assert.equal(missing.summary().split("missing-agent: not found").length, 2, missing.summary());
});

test("a file of cases", async (t) => {
  const evaluate = evaluating(t);
  const cases = join(folder(t), "capitals.csv");
  writeFileSync(cases, "id,input,expected\nfrance,Capital of France?,Paris\nitaly,Capital of Italy?,Rome\n");
  const result = await evaluate({ cases, agent: right });
  assert.match(result.report["suite"].suiteId, /\.capitals$/);
  assert.equal(result.count("passed"), 2);
  const scored = await evaluate({ cases, agent: right, passScore: 0.1 });
  assert.deepEqual([scored.passScore, scored.count("passed")], [0.1, 2]);
  await assert.rejects(evaluate({ cases: `${cases}x`, agent: right }), (error) => error instanceof InvalidCases && error.code !== undefined);
});

const CASE_MISTAKES: [unknown, RegExp][] = [
  [[], /there are no cases/],
  [3, /must be a path or an array, got number/],
  [["a"], /case 0 must be an object, got string/],
  [[{ input: "a", expected: "b", id: 7 }], /case 0: id must be a string, got 7/],
  [[{ input: "a", expected: "b", tags: "c" }], /case 0: tags must be a list of tags, got string/],
  [[{ input: "a", assertions: { type: "regex" } }], /case 0: assertions must be a list of assertions, got object/],
  [[{ expected: "a" }], /case 0 has no input/],
  [[{ input: "a" }], /does not say which answers are right/],
  [[{ input: "a", expect: "b" }], /unknown member "expect"/],
  [[{ input: "a", expected: "b", id: "Ä B" }], /use "b"/],
  [[{ input: "a", expected: "b", id: "x" }, { input: "c", expected: "d", id: "x" }], /cases 0 and 1 have the same id "x"/],
  [[{ input: new Map(), expected: "b" }], /Map is not JSON/],
  [[{ input: "a", expected: NaN }], /NaN is not JSON/],
  [[{ input: "a", rubric: "short" }], /list of criteria/],
  [[{ input: "a", expected: "b", match: "fuzzy" }], /must be "exact" or "contains", got "fuzzy"/],
];

test("wrong cases are refused with a next step", async (t) => {
  const evaluate = evaluating(t);
  for (const [cases, message] of CASE_MISTAKES) {
    await assert.rejects(evaluate({ cases: cases as [], agent: right }), (error) => {
      assert.ok(error instanceof InvalidCases && error.remedy !== undefined, String(error));
      assert.match(error.message, message);
      return true;
    });
  }
});

const MISTAKES: [Partial<Record<keyof EvaluateOptions, unknown>>, RegExp][] = [
  [{ trials: 0 }, /trials must be at least 1, got 0/],
  [{ trials: 2.5 }, /trials must be an integer, got 2.5/],
  [{ concurrency: "4" }, /concurrency must be at least 1, got 4/],
  [{ passScore: "0.5" }, /passScore must be between 0 and 1, got 0.5/],
  [{ ...({ passscore: 0.5 } as object) }, /there is no option "passscore"/],
  [{ match: "fuzzy" }, /match must be "exact" or "contains", got "fuzzy"/],
  [{ agent: " " }, /the agent is an empty text/],
  [{ timeoutMs: NaN }, /timeoutMs must be at least 1, got NaN/],
  [{ passScore: 2 }, /passScore must be between 0 and 1, got 2/],
  [{ agent: "http://127.0.0.1:1/v1" }, /needs the name of a model/],
  [{ agent: 3 }, /agent must be a function, .* got number/],
  [{ judge: "http://127.0.0.1:1/v1" }, /judge must be a function/],
  [{ lenient: true, trials: 2 }, /omit one of them/],
  [{ judge: [{ url: "http://127.0.0.1:9/v1", model: "a", apiKey: "1" }, { url: "http://127.0.0.1:9/v1", model: "b" }] }, /different API keys/],
];

test("wrong options are refused with a next step", async (t) => {
  const evaluate = evaluating(t);
  for (const [options, message] of MISTAKES) {
    await assert.rejects(evaluate({ cases: CASES, agent: right, ...options } as EvaluateOptions<string>), (error) => {
      assert.ok(error instanceof InvalidArguments && error.remedy !== undefined, String(error));
      assert.match(error.message, message);
      return true;
    });
  }
  await assert.rejects(evaluate({ cases: [{ input: "a", assertions: [{ type: "nope" }] }], agent: right }), (error) => {
    // It does not name the temporary folder, which no longer exists.
    return error instanceof InvalidArguments && error.message.startsWith("right.scoring.json: /tasks/case-1/assertions/0/type");
  });
  await assert.rejects(evaluate({ cases: CASES, agent: right, baseline: "run_0199" }), (error) => {
    return error instanceof TouchstoneError && error.message.includes("run_0199");
  });
});
