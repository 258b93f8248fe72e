import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";

import { type Document, evaluate, type EvaluateOptions, type Result } from "touchstone-evals";

export const CITIES: Readonly<Record<string, string>> = { France: "Paris", Italy: "Rome", Norway: "Oslo" };
export const CASES = Object.entries(CITIES).map(([country, city]) => ({
  id: country.toLowerCase(),
  input: `Capital of ${country}?`,
  expected: city,
}));

export function right(question: string): string {
  const country = /(\w+)\?$/.exec(question)?.[1] ?? "";
  return CITIES[country] ?? "";
}

export function doubles(count: number): { input: number; expected: string }[] {
  return Array.from({ length: count }, (_, n) => ({ input: n, expected: String(n * 2) }));
}

export function folder(t: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), "touchstone-test-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** `evaluate` with a data folder of its own. */
export function evaluating(t: TestContext): <Input>(options: EvaluateOptions<Input>) => Promise<Result> {
  const data = folder(t);
  return (options) => evaluate({ data, ...options });
}

export interface Model {
  readonly url: string;
  readonly requests: Document[];
  readonly keys: (string | undefined)[];
}

/** A model endpoint and an A2A agent that answers every request with the same text. */
export async function model(t: TestContext, answer: string): Promise<Model> {
  const requests: Document[] = [];
  const keys: (string | undefined)[] = [];
  const server = createServer(async (request, response) => {
    if (request.method !== "POST") {
      // There is no card of an agent.
      response.writeHead(404).end();
      return;
    }
    const asked = JSON.parse(await text(request)) as Document;
    requests.push(asked);
    keys.push(request.headers.authorization);
    const document = request.url === "/agent" ? messageOf(asked, answer) : completionOf(answer);
    response.setHeader("content-type", "application/json").end(JSON.stringify(document));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, keys };
}

function messageOf(asked: Document, said: string): Document {
  const parts = [{ kind: "text", text: said }];
  return { jsonrpc: "2.0", id: asked["id"], result: { kind: "message", role: "agent", messageId: "1", parts } };
}

function completionOf(said: string): Document {
  return {
    id: "1",
    object: "chat.completion",
    created: 1,
    model: "mock",
    choices: [{ index: 0, message: { role: "assistant", content: said }, finish_reason: "stop" }],
    usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
  };
}
