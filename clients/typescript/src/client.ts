import { setTimeout as sleep } from "node:timers/promises";

import { HostError, InvalidArguments, TouchstoneError } from "./errors.js";
import { lines } from "./json.js";
import { VERSION } from "./locate.js";
import type { Document } from "./types.js";

const MOST_RECONNECTS = 5;
const ENDED = ["completed", "failed", "cancelled"];
const LAST = new Set(ENDED.map((status) => `run.${status}`));

type Query = Readonly<Record<string, string | number>>;

export interface ClientOptions {
  /** Default: `TOUCHSTONE_SERVER`. */
  readonly url?: string | undefined;
  /** An API key. Default: `TOUCHSTONE_KEY`. */
  readonly key?: string | undefined;
  /** Milliseconds per request, except for streams of events. Default: 60,000. */
  readonly timeoutMs?: number | undefined;
}

export interface CreateRunOptions {
  /** `SUITE@VERSION`. */
  readonly suite: string;
  readonly agent: string;
  readonly idempotencyKey?: string | undefined;
  /** Members of `configurable`, such as `evalConcurrency`. */
  readonly configurable?: Readonly<Record<string, unknown>> | undefined;
}

interface Request {
  readonly method?: string;
  readonly query?: Query;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** A Touchstone host. Methods return the JSON documents of the HTTP API (openapi.yaml). */
export class Client {
  readonly url: string;
  readonly #key: string | undefined;
  readonly #timeoutMs: number;
  /** Whether the host serves OpenWOP v1. If not, its operations are below `/host/touchstone`. */
  #hasV1 = true;

  constructor({ url = process.env["TOUCHSTONE_SERVER"], key = process.env["TOUCHSTONE_KEY"], timeoutMs = 60_000 }: ClientOptions = {}) {
    if (url === undefined || !/^https?:\/\//.test(url)) {
      throw new InvalidArguments("the client needs the URL of a host", { remedy: "pass a url, or set TOUCHSTONE_SERVER" });
    }
    this.url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#timeoutMs = timeoutMs;
  }

  /** Creates an eval run and returns its id. */
  async createRun({ suite, agent, idempotencyKey, configurable = {} }: CreateRunOptions): Promise<string> {
    const headers: Record<string, string> = idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey };
    const body = { mode: "eval", evalSuiteRef: suite, agentId: agent, configurable };
    return (await this.#json("/v1/runs", { method: "POST", body, headers }))["runId"];
  }

  /** The runs of the tenant, newest first, such as `runs({ verdict: "fail", tag: "nightly" })`. */
  async *runs(conditions: Query = {}): AsyncGenerator<Document, void, undefined> {
    let query = conditions;
    for (;;) {
      const page = await this.#json("/v1/host/touchstone/runs", { query });
      yield* page["runs"] as Document[];
      if (page["nextCursor"] == null) {
        return;
      }
      query = { ...conditions, cursor: page["nextCursor"] };
    }
  }

  /** The status of a run. */
  run(run: string): Promise<Document> {
    return this.#json(`/v1/runs/${part(run)}`);
  }

  report(run: string): Promise<Document> {
    return this.#json(`/v1/host/touchstone/runs/${part(run)}/report`);
  }

  statistics(run: string): Promise<Document> {
    return this.#json(`/v1/host/touchstone/runs/${part(run)}/statistics`);
  }

  /** Input, expected and actual answer, and transcript of a task. Needs the scope `runs:content`. */
  task(run: string, task: string): Promise<Document> {
    return this.#json(`/v1/host/touchstone/runs/${part(run)}/tasks/${part(task)}`);
  }

  /** The signed verdict, as DSSE envelopes. */
  async attestation(run: string, channel?: string): Promise<Document[]> {
    const query: Query = channel === undefined ? {} : { channel };
    return (await this.#json(`/v1/host/touchstone/runs/${part(run)}/attestation`, { query }))["attestations"];
  }

  cancel(run: string, reason?: string): Promise<Document> {
    return this.#json(`/v1/runs/${part(run)}/cancel`, { method: "POST", body: reason === undefined ? {} : { reason } });
  }

  /** Waits for the end of a run and returns its report. */
  async wait(run: string): Promise<Document> {
    for await (const _event of this.events(run)) {
      // The last event ends the stream.
    }
    return this.report(run);
  }

  /**
   * The events of a run so far, then new ones until it ends. A connection that is lost is opened again
   * after the last event.
   */
  async *events(run: string, { mode = "updates", signal }: { readonly mode?: string; readonly signal?: AbortSignal } = {}): AsyncGenerator<
    Document,
    void,
    undefined
  > {
    let last: string | undefined;
    for (let failures = 1; ; failures += 1) {
      let lost: unknown;
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (last !== undefined) {
        headers["Last-Event-ID"] = last;
      }
      // Leaving the loop early must close the connection.
      const stop = new AbortController();
      const ends = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal]);
      try {
        const { body } = await this.#send(`/v1/runs/${part(run)}/events`, { query: { streamMode: mode }, headers }, ends);
        for await (const { id, event } of body === null ? [] : serverSentEvents(body)) {
          last = id ?? last;
          failures = 0;
          yield event;
          if (LAST.has(event["type"])) {
            return;
          }
        }
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof HostError) {
          throw error;
        }
        lost = error;
      } finally {
        stop.abort();
      }
      // A host that stops closes its streams, too.
      if (ENDED.includes((await this.run(run))["status"])) {
        return;
      }
      if (failures >= MOST_RECONNECTS) {
        throw new TouchstoneError(`the stream of ${run} was lost ${failures} times`, {
          remedy: "read the events again later",
          cause: lost,
        });
      }
      await sleep(failures * 1000, undefined, signal === undefined ? {} : { signal });
    }
  }

  async #json(path: string, request: Request = {}): Promise<Document> {
    const response = await this.#send(path, request, AbortSignal.timeout(this.#timeoutMs));
    return (await response.json()) as Document;
  }

  async #send(path: string, request: Request, signal: AbortSignal): Promise<Response> {
    const { method = "GET", query = {}, body, headers = {} } = request;
    const isOfV1 = path.startsWith("/v1/runs");
    const url = new URL(this.url + (isOfV1 && !this.#hasV1 ? `/host/touchstone${path}` : path));
    for (const [name, value] of Object.entries(query)) {
      url.searchParams.set(name, String(value));
    }
    const sent: Record<string, string> = { "User-Agent": `touchstone-evals/${VERSION}`, Accept: "application/json", ...headers };
    if (this.#key !== undefined) {
      sent["Authorization"] = `Bearer ${this.#key}`;
    }
    if (body !== undefined) {
      sent["Content-Type"] = "application/json";
    }
    let response: Response;
    try {
      // A redirect would send the key elsewhere.
      const text = body === undefined ? null : JSON.stringify(body);
      response = await fetch(url, { method, headers: sent, body: text, redirect: "manual", signal });
    } catch (cause) {
      throw new TouchstoneError(`${this.url} cannot be reached: ${reasonOf(cause)}`, {
        remedy: "check the URL and that the host runs",
        cause,
      });
    }
    if (!response.ok) {
      if (isOfV1 && this.#hasV1 && response.headers.get("OpenWOP-Version")?.startsWith("2.")) {
        this.#hasV1 = false;
        await response.body?.cancel();
        return this.#send(path, request, signal);
      }
      throw await hostError(response);
    }
    return response;
  }
}

function part(text: string): string {
  return encodeURIComponent(text);
}

function reasonOf(cause: unknown): string {
  // `fetch` says only "fetch failed" itself.
  const found = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  return found instanceof Error ? found.message || found.name : String(found);
}

async function hostError(response: Response): Promise<HostError> {
  const found = (await response.json().catch(() => ({}))) as Document;
  const message = found["message"] ?? `the host answered ${response.statusText}`;
  return new HostError(response.status, found["error"], message, found["details"] ?? {});
}

async function* serverSentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<{ id: string | undefined; event: Document }> {
  let id: string | undefined;
  let data: string[] = [];
  for await (const raw of lines(body.pipeThrough(new TextDecoderStream()))) {
    const line = raw.replace(/\r$/, "");
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (line === "") {
      if (data.length > 0) {
        const event = JSON.parse(data.join("\n")) as unknown;
        if (event !== null && typeof event === "object") {
          yield { id, event: event as Document };
        }
      }
      data = [];
    } else if (name === "data") {
      data.push(value ?? "");
    } else if (name === "id") {
      id = value;
    }
  }
}
