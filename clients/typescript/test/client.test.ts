import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test, { type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { Client, type Document, evaluate, HostError, InvalidArguments, TouchstoneError } from "touchstone-evals";

import { folder } from "./support.js";

const PROGRAM = process.env["TOUCHSTONE_BIN"] ?? "touchstone";

/** A host over the data folder of an evaluation, with this preferred version of OpenWOP. */
async function host(t: TestContext, version = "1.0"): Promise<{ client: Client; key: string; run: string }> {
  const data = folder(t);
  const cases = [{ id: "a", input: "a", expected: "a" }, { id: "b", input: "b", expected: "c" }];
  const { runId: run } = await evaluate({ cases, agent: (input) => input, tags: ["nightly"], data });
  const config = join(folder(t), "host.toml");
  writeFileSync(config, `[openwop]\npreferred_version = "${version}"\n`);
  const options = ["--config", config, "--data", data];
  const create = [...options, "key", "create", "--tenant", "default", "--scope", "all"];
  const key = execFileSync(PROGRAM, create, { encoding: "utf8" }).trim();
  const child = spawn(PROGRAM, [...options, "serve", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "ignore"] });
  t.after(async () => {
    child.kill();
    await once(child, "exit");
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /listening on (\S+)/.exec(line)?.[1];
    if (url !== undefined) {
      return { client: new Client({ url, key }), key, run };
    }
  }
  throw new Error("the host did not start");
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) {
    found.push(item);
  }
  return found;
}

for (const version of ["1.0", "2.0"]) {
  test(`a host of version ${version} is read`, (t) => read(t, version));
}

async function read(t: TestContext, version: string): Promise<void> {
  const { client, run } = await host(t, version);
  assert.deepEqual((await all(client.runs({ tag: "nightly" }))).map((row) => row["runId"]), [run]);
  assert.deepEqual(await all(client.runs({ tag: "other" })), []);
  assert.equal((await client.run(run))["status"], "completed");
  assert.equal((await client.report(run))["summary"].passedCount, 1);
  assert.equal((await client.statistics(run))["n_tasks"], 2);
  assert.equal((await client.task(run, "b"))["actual"], "b");
  const kinds = (await all(client.events(run))).map((event) => event["type"]);
  assert.equal(kinds.filter((kind) => kind === "eval.scored").length, 2);
  assert.equal(kinds.at(-1), "run.completed");
  assert.equal((await client.wait(run))["runId"], run);
  await assert.rejects(client.report("run_0199c0de/../../x"), (error) => error instanceof HostError && error.status === 404);
  await assert.rejects(new Client({ url: client.url, key: "tsk_wrong" }).report(run), (error) => {
    return error instanceof HostError && error.status === 401 && error.code === "unauthenticated" && /TOUCHSTONE_KEY/.test(error.message);
  });
  const suite = "vendor.acme.evals.none@1.0.0";
  const refused = client.createRun({ suite, agent: "vendor.acme.none.default", configurable: { evalConcurrency: 2 } });
  await assert.rejects(refused, (error) => error instanceof HostError && error.status === 400 && error.code !== undefined);
}

test("the example of the page works", async (t) => {
  const { client, key } = await host(t);
  const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
  const env = { ...inherited, TOUCHSTONE_SERVER: client.url, TOUCHSTONE_KEY: key };
  const example = fileURLToPath(new URL("../docs/host.js", import.meta.url));
  const printed = execFileSync(process.execPath, [example], { encoding: "utf8", env });
  assert.match(printed, /^run_/);
  assert.match(printed, /^run\.completed$/m);
});

test("a lost stream is resumed after its last event", async (t) => {
  const streams = [
    'id: 1\ndata: {"type": "eval.started"}\n\n',
    ': comment\nid: 2\r\ndata: {"type":\r\ndata: "run.failed"}\r\n\r\nid: 3\n',
  ];
  const resumed: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    if (request.url?.includes("/events?streamMode=updates")) {
      resumed.push(request.headers["last-event-id"] as string | undefined);
      response.setHeader("content-type", "text/event-stream").end(streams[resumed.length - 1]);
    } else if (request.url === "/v1/runs/moved") {
      response.writeHead(302, { location: "/v1/runs/run_1" }).end();
    } else {
      response.setHeader("content-type", "application/json").end('{"status": "running"}');
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const client = new Client({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` });
  const events: Document[] = await all(client.events("run_1"));
  assert.deepEqual(events.map((event) => event["type"]), ["eval.started", "run.failed"]);
  assert.deepEqual(resumed, [undefined, "1"]);
  await assert.rejects(client.run("moved"), (error) => error instanceof HostError && error.status === 302);
});

test("errors have a next step and no key", async () => {
  assert.throws(() => new Client(), (error) => error instanceof InvalidArguments && /set TOUCHSTONE_SERVER/.test(error.message));
  const client = new Client({ url: "http://127.0.0.1:1", key: "tsk_secret" });
  await assert.rejects(client.run("run_1"), (error) => error instanceof TouchstoneError && /check the URL/.test(error.message));
  assert.ok(!JSON.stringify(client).includes("secret"));
});
