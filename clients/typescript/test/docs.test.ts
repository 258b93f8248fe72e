import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import * as touchstone from "touchstone-evals";

import { folder, model } from "./support.js";

test("the examples of the page work, in its order", async (t) => {
  const { url, requests } = await model(t, "Paris");
  const page = fileURLToPath(new URL("../docs/page.js", import.meta.url));
  const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
  const options = { cwd: folder(t), env: { ...inherited, MODEL_URL: `${url}/v1` } };
  const { stdout } = await promisify(execFile)(process.execPath, [page], options);
  assert.match(stdout, /^FAIL {2}score 0\.67|^INCONCLUSIVE {2}score 0\.67/);
  assert.match(stdout, /\[\] \[ 'case-3' \]/);
  assert.match(stdout, /3 of 3: case-\d passed/);
  assert.equal(requests.length, 1);
});

test("every exported name is documented", () => {
  const page = readFileSync(new URL("../docs/page.md", import.meta.url), "utf8");
  for (const name of Object.keys(touchstone)) {
    assert.ok(page.includes(name), name);
  }
});
