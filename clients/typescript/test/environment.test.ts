import assert from "node:assert/strict";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";

import { BinaryNotFound, evaluate, TouchstoneError } from "touchstone-evals";

import { folder } from "./support.js";

function environment(t: TestContext, changed: Record<string, string | undefined>): void {
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  Object.assign(process.env, changed);
  for (const [name, value] of Object.entries(changed)) {
    if (value === undefined) {
      delete process.env[name];
    }
  }
}

const options = { cases: [{ input: "a", expected: "a" }], agent: (input: string) => input };

test("a missing program is an error with a next step", async (t) => {
  const place = folder(t);
  environment(t, { TOUCHSTONE_BIN: join(place, "none") });
  await assert.rejects(evaluate(options), (error) => {
    return error instanceof BinaryNotFound && /correct or unset TOUCHSTONE_BIN/.test(error.message);
  });
  environment(t, { TOUCHSTONE_BIN: undefined, PATH: place });
  await assert.rejects(evaluate(options), (error) => error instanceof BinaryNotFound && /set TOUCHSTONE_BIN/.test(error.message));
});

test("the program in PATH is used, with a warning if it has another version", async (t) => {
  const place = folder(t);
  const program = join(place, "touchstone");
  writeFileSync(program, '#!/bin/sh\n[ "$1" = --version ] && echo "touchstone 0.0.1" || exit 3\n');
  chmodSync(program, 0o755);
  environment(t, { TOUCHSTONE_BIN: undefined, PATH: `${place}:${process.env["PATH"]}` });
  const warnings: string[] = [];
  const warned = new Promise<void>((resolve) => {
    process.once("warning", (warning) => {
      warnings.push(warning.message);
      resolve();
    });
  });
  await assert.rejects(evaluate({ ...options, data: place }), /exit code 3/);
  await warned;
  assert.match(warnings[0] ?? "", /is version 0\.0\.1/);
});

const MALFORMED = [
  { question: "confidential", problem: "a line is not JSON" },
  { question: '"confidential"', problem: "a line is not an object with an id" },
  { question: '{"input": "confidential"}', problem: "a line is not an object with an id" },
];

for (const { question, problem } of MALFORMED) {
  test(`a malformed question ends the evaluation with an error: ${question}`, async (t) => {
    const place = folder(t);
    const program = join(place, "touchstone");
    // It would wait for an answer for a long time.
    const script = `#!/bin/sh\necho '${question}' >&3\nexec sleep 600\n`;
    writeFileSync(program, script);
    chmodSync(program, 0o755);
    environment(t, { TOUCHSTONE_BIN: program });
    await assert.rejects(evaluate({ ...options, data: place }), (error) => {
      assert.ok(error instanceof TouchstoneError);
      assert.match(error.message, new RegExp(`malformed question: ${problem}.*install equal versions`));
      assert.doesNotMatch(error.message, /confidential/);
      return true;
    });
  });
}

test("another host cannot call a function", async (t) => {
  environment(t, { TOUCHSTONE_SERVER: "http://127.0.0.1:1" });
  await assert.rejects(evaluate(options), /unset TOUCHSTONE_SERVER/);
});
