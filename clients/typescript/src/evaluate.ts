import { stat, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, extname, join } from "node:path";

import { Bridge, label, repliesOfAgent, repliesOfJudge, Thrown } from "./bridge.js";
import { slug, writeSuite } from "./cases.js";
import { InvalidArguments, TouchstoneError } from "./errors.js";
import { find } from "./locate.js";
import { type Done, Program } from "./program.js";
import { follow, Line } from "./progress.js";
import { type Comparison, comparisonOf, estimate, Failure, Result, type Task, tasksOf } from "./result.js";
import type { Agent, Cases, Document, Endpoint, Judge, Match, Progress, Verdict } from "./types.js";

const A2A = /^a2a\+(https?:\/\/.+)$/;
const URL_OF_MODEL = /^https?:\/\//;
const NO_PROMPT = "Answer the request.";
const VERDICTS = new Map<number, Verdict>([[0, "pass"], [1, "fail"], [4, "inconclusive"]]);
/** The descriptors of the program that agent and judge are reached by. */
const SOCKETS = { agent: { ask: 3, answer: 4 }, judge: { ask: 5, answer: 6 } } as const;

/** Every option, because a misspelled one would have no effect. The type makes the list complete. */
const OPTIONS: ReadonlySet<string> = new Set(
  Object.keys({
    cases: 1, agent: 1, judge: 1, baseline: 1, baselineKey: 1, name: 1, version: 1, match: 1, passScore: 1, trials: 1, concurrency: 1, timeoutMs: 1,
    maxCostUsd: 1, lenient: 1, cache: 1, prompt: 1, tags: 1, data: 1, config: 1, progress: 1, onProgress: 1, signal: 1,
  } satisfies Record<keyof EvaluateOptions, 1>),
);

export interface EvaluateOptions<Input = unknown> {
  readonly cases: Cases<Input>;
  /** A function, a model, an A2A agent as `a2a+https://…`, or a command. */
  readonly agent: Agent<Input> | Endpoint | string;
  /** A function, or models that check rubrics. */
  readonly judge?: Judge<Input> | Endpoint | readonly Endpoint[] | undefined;
  /**
   * An earlier result, the id of a run, `latest`, `latest-passed`, an attestation (`.jsonl`), or a log of
   * Inspect. The first run has no latest one and is not compared.
   */
  readonly baseline?: Result | string | undefined;
  /** Public key files, one of which must have signed the attestation. Default: those of the configuration. */
  readonly baselineKey?: string | readonly string[] | undefined;
  /** Default: the name of the function or file. Runs of the same name are comparable. */
  readonly name?: string | undefined;
  /** Distinguishes versions of a function. */
  readonly version?: string | undefined;
  /** How answers are compared with `expected`. Default: `exact`. */
  readonly match?: Match | undefined;
  /** The score from which the agent passes, from 0 to 1. Default: that of the suite, else 1. */
  readonly passScore?: number | undefined;
  /** Runs of every task. Default: 1. */
  readonly trials?: number | undefined;
  /** Tasks at once. Default: 8 for a function. */
  readonly concurrency?: number | undefined;
  /** Milliseconds per task. */
  readonly timeoutMs?: number | undefined;
  readonly maxCostUsd?: number | undefined;
  /** Pass if the score reaches the pass score, even if its interval does not. */
  readonly lenient?: boolean | undefined;
  /** Reuse answers of models to equal requests. Default: true. */
  readonly cache?: boolean | undefined;
  /** The instructions of a model. */
  readonly prompt?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  /** The folder with the runs. Default: `.touchstone`. */
  readonly data?: string | undefined;
  /** A configuration file (docs/configuration.md). */
  readonly config?: string | undefined;
  /** Show progress on standard error, if it is a terminal. Default: true. */
  readonly progress?: boolean | undefined;
  /** Called after each task. If it throws, the run is cancelled and `evaluate` throws the same. */
  readonly onProgress?: ((progress: Progress) => void | Promise<void>) | undefined;
  /** Cancels the run. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Evaluates an agent and returns the result, whatever the verdict.
 *
 * Throws `InvalidCases` and `InvalidArguments` for wrong options, and `TouchstoneError` if the evaluation
 * cannot be completed.
 */
export async function evaluate<Input = unknown>(options: EvaluateOptions<Input>): Promise<Result> {
  check(options);
  options.signal?.throwIfAborted();
  const binary = find();
  const folder = await mkdtemp(join(tmpdir(), "touchstone-"));
  const stop = new AbortController();
  try {
    return await new Evaluation(options, binary, folder, stop.signal).run();
  } catch (thrown) {
    throw thrown instanceof TouchstoneError ? thrown.without(folder) : thrown;
  } finally {
    stop.abort();
    await rm(folder, { recursive: true, force: true });
  }
}

function check<Input>(options: EvaluateOptions<Input>): void {
  if (options === null || typeof options !== "object") {
    throw new InvalidArguments(`evaluate needs an object, got ${typeof options}`, { remedy: "pass { cases, agent }" });
  }
  const unknown = Object.keys(options).find((name) => !OPTIONS.has(name));
  if (unknown !== undefined) {
    throw new InvalidArguments(`there is no option ${JSON.stringify(unknown)}`, { remedy: `use only ${[...OPTIONS].join(", ")}` });
  }
  for (const [name, least] of [["trials", 1], ["concurrency", 1], ["timeoutMs", 1], ["maxCostUsd", 0]] as const) {
    const value = options[name];
    if (value !== undefined && !(typeof value === "number" && value >= least)) {
      throw new InvalidArguments(`${name} must be at least ${least}, got ${String(value)}`, { remedy: "correct it" });
    }
    if (value !== undefined && (name === "trials" || name === "concurrency") && !Number.isInteger(value)) {
      throw new InvalidArguments(`${name} must be an integer, got ${value}`, { remedy: "correct it" });
    }
  }
  const { agent, judge, match, passScore } = options;
  if (passScore !== undefined && !(typeof passScore === "number" && passScore >= 0 && passScore <= 1)) {
    throw new InvalidArguments(`passScore must be between 0 and 1, got ${String(passScore)}`, { remedy: "correct it" });
  }
  if (match !== undefined && match !== "exact" && match !== "contains") {
    throw new InvalidArguments(`match must be "exact" or "contains", got ${JSON.stringify(match)}`, { remedy: "correct it" });
  }
  if (typeof agent === "string" && agent.trim() === "") {
    throw new InvalidArguments("the agent is an empty text", { remedy: "pass a function, { url, model } or a command" });
  }
  if (typeof agent !== "function" && typeof agent !== "string" && !isEndpoint(agent)) {
    throw new InvalidArguments(`agent must be a function, { url, model }, an A2A URL or a command, got ${typeof agent}`, {
      remedy: "pass a function that takes the input of a task",
    });
  }
  if (typeof agent === "string" && URL_OF_MODEL.test(agent)) {
    throw new InvalidArguments(`the agent ${agent} needs the name of a model`, {
      remedy: "write { url, model }, or a2a+https://… for an A2A agent",
    });
  }
  if (judge !== undefined && typeof judge !== "function" && !judgesOf(judge).every(isEndpoint)) {
    throw new InvalidArguments("judge must be a function, { url, model } or an array of these", { remedy: "correct it" });
  }
  const { baseline, baselineKey } = options;
  if (baselineKey !== undefined && !keysOf(baselineKey).every((key) => typeof key === "string")) {
    throw new InvalidArguments("baselineKey must be a file or an array of files", { remedy: "pass the path of a public key" });
  }
  if (baselineKey !== undefined && baseline === undefined) {
    throw new InvalidArguments("baselineKey has no effect without baseline", { remedy: "add baseline, or omit it" });
  }
  if (process.env["TOUCHSTONE_SERVER"] && (typeof agent === "function" || typeof judge === "function")) {
    throw new InvalidArguments("TOUCHSTONE_SERVER is set, but another host cannot call a function of this process", {
      remedy: "unset TOUCHSTONE_SERVER",
    });
  }
  if (options.lenient === true && (options.trials ?? 1) > 1) {
    throw new InvalidArguments("lenient does not go with trials", { remedy: "omit one of them" });
  }
}

function isEndpoint(given: unknown): given is Endpoint {
  const { url, model } = (given ?? {}) as Partial<Endpoint>;
  return typeof url === "string" && typeof model === "string";
}

function keysOf(key: string | readonly string[] | undefined): readonly string[] {
  return key === undefined ? [] : typeof key === "string" ? [key] : key;
}

function judgesOf(judge: Endpoint | readonly Endpoint[]): readonly Endpoint[] {
  return Array.isArray(judge) ? (judge as readonly Endpoint[]) : [judge as Endpoint];
}

class Evaluation<Input> {
  readonly #options: EvaluateOptions<Input>;
  readonly #folder: string;
  readonly #signal: AbortSignal;
  readonly #thrown = new Thrown();
  readonly #bridges: Bridge[] = [];
  readonly #environment: NodeJS.ProcessEnv = { ...process.env };
  readonly #binary: string;

  constructor(options: EvaluateOptions<Input>, binary: string, folder: string, signal: AbortSignal) {
    this.#options = options;
    this.#binary = binary;
    this.#folder = folder;
    this.#signal = signal;
  }

  async run(): Promise<Result> {
    const program = new Program(this.#binary, await this.#global(), this.#environment);
    const done = await this.#follow(program, ["eval", ...(await this.#arguments(program))]);
    return this.#result(program, done);
  }

  /** The options that every command gets. */
  async #global(): Promise<string[]> {
    const { agent, config, data } = this.#options;
    const found = data === undefined ? [] : ["--data", data];
    const remote = typeof agent === "string" ? A2A.exec(agent)?.[1] : undefined;
    if (remote === undefined) {
      return config === undefined ? found : [...found, "--config", config];
    }
    if (config !== undefined) {
      throw new InvalidArguments("an A2A agent is configured by its URL, so config has no effect", {
        remedy: "omit config, or name the agent in its [[models]]",
      });
    }
    const file = join(this.#folder, "touchstone.toml");
    // A string of JSON is one of TOML, too.
    await writeFile(file, `[[models]]\nclass = "*"\nprovider = "a2a"\nbase_url = ${JSON.stringify(remote)}\n`);
    return [...found, "--config", file];
  }

  async #arguments(program: Program): Promise<string[]> {
    const { agent, baseline, baselineKey, trials = 1, timeoutMs, maxCostUsd } = this.#options;
    const concurrency = this.#options.concurrency ?? (typeof agent === "function" ? 8 : undefined);
    const found = [...(await this.#subject(program)), ...this.#agent(), ...this.#judge(), "--no-github"];
    const option = (name: string, value: string | number | undefined): void => {
      if (value !== undefined) {
        found.push(`--${name}=${value}`);
      }
    };
    option("baseline", baseline instanceof Result ? baseline.runId : baseline);
    keysOf(baselineKey).forEach((key) => option("baseline-key", key));
    if (baseline === "latest" || baseline === "latest-passed") {
      found.push("--baseline-optional");
    }
    option("trials", trials > 1 ? trials : undefined);
    option("concurrency", concurrency);
    option("timeout", timeoutMs === undefined ? undefined : `${Math.round(timeoutMs)}ms`);
    option("max-cost-usd", maxCostUsd);
    this.#options.tags?.forEach((tag) => option("tag", tag));
    if (this.#options.lenient === true) {
      found.push("--lenient");
    }
    if (this.#options.cache === false) {
      found.push("--no-cache");
    }
    return found;
  }

  #name(): string {
    const { agent, cases, name } = this.#options;
    if (name !== undefined) {
      return slug(name);
    }
    const usual = typeof agent === "function" ? agent.name : "agent";
    return slug(typeof cases === "string" ? basename(cases, extname(cases)) : usual);
  }

  async #subject(program: Program): Promise<string[]> {
    const { cases, agent, judge, match = "exact", passScore, prompt } = this.#options;
    const name = this.#name();
    const found: string[] = [];
    if (typeof cases !== "string") {
      const judged = typeof judge === "function";
      found.push(`--cases=${await writeSuite(cases, this.#folder, { name, match, passScore, judged })}`);
    } else if (await isFolder(cases)) {
      for (const [option, given] of Object.entries({ passScore, prompt })) {
        if (given !== undefined) {
          throw new InvalidArguments(`${option} has no effect on a pack folder`, { remedy: "set it in the pack" });
        }
      }
      return [cases];
    } else if (passScore === undefined) {
      found.push(`--cases=${cases}`, `--match=${match}`);
    } else {
      const suite = join(this.#folder, `${name}.json`);
      await program.run("suite", "import", cases, `--match=${match}`, `--pass-score=${passScore}`, `--out=${suite}`);
      found.push(`--cases=${suite}`);
    }
    const isModel = typeof agent === "object" || (typeof agent === "string" && A2A.test(agent));
    if (prompt !== undefined || isModel) {
      const file = join(this.#folder, `${name}.md`);
      await writeFile(file, prompt ?? NO_PROMPT);
      found.push(`--prompt=${file}`);
    }
    return found;
  }

  #agent(): string[] {
    const { agent, version } = this.#options;
    if (typeof agent === "function") {
      const { ask, answer } = SOCKETS.agent;
      const replies = repliesOfAgent(agent, this.#signal, this.#thrown);
      return [`--agent-command=${this.#bridge(new Bridge(ask, answer, label(agent, version), replies))}`];
    }
    if (typeof agent === "string") {
      return A2A.test(agent) ? [] : [`--agent-command=${agent}`];
    }
    if (agent.apiKey !== undefined) {
      this.#environment["TOUCHSTONE_MODEL_API_KEY"] = agent.apiKey;
    }
    return [`--model-url=${agent.url}`, `--model=${agent.model}`, `--model-provider=${agent.provider ?? "openai"}`];
  }

  #judge(): string[] {
    const { judge } = this.#options;
    if (judge === undefined) {
      return [];
    }
    if (typeof judge === "function") {
      const { ask, answer } = SOCKETS.judge;
      return [`--assert-command=${this.#bridge(new Bridge(ask, answer, label(judge), repliesOfJudge(judge, this.#thrown)))}`];
    }
    const judges = judgesOf(judge);
    const keys = new Set(judges.map((one) => one.apiKey));
    if (keys.size > 1) {
      throw new InvalidArguments("the judges have different API keys, and an evaluation has one for all judges", {
        remedy: "give all of them one apiKey, or configure the judges in a file and pass config",
      });
    }
    const key = judges[0]?.apiKey;
    if (key !== undefined) {
      this.#environment["TOUCHSTONE_JUDGE_API_KEY"] = key;
    }
    return judges.flatMap((one) => [
      `--judge-url=${one.url}`,
      `--judge-model=${one.model}`,
      `--judge-provider=${one.provider ?? "openai"}`,
    ]);
  }

  #bridge(bridge: Bridge): string {
    this.#bridges.push(bridge);
    return bridge.command;
  }

  /** Runs the program to its end. */
  async #follow(program: Program, given: readonly string[]): Promise<Done> {
    const { onProgress, signal } = this.#options;
    const line = (this.#options.progress ?? true) && process.stderr.isTTY ? new Line() : undefined;
    const file = join(this.#folder, "progress.jsonl");
    const isUsed = new Set(this.#bridges.flatMap(({ ask, answer }) => [ask, answer]));
    const sockets = [3, 4, 5, 6].map((descriptor) => isUsed.has(descriptor));
    signal?.throwIfAborted();
    const process_ = program.start([...given, `--progress=${file}`], sockets);
    const interrupt = (): void => process_.interrupt();
    signal?.addEventListener("abort", interrupt);
    const stop = (error: unknown): never => {
      interrupt();
      throw error;
    };
    const bridges = this.#bridges.map((bridge) => bridge.serve(process_.readable(bridge.ask), process_.writable(bridge.answer)));
    const serving = Promise.all(bridges).catch(stop);
    const report = async (progress: Progress): Promise<void> => {
      line?.show(progress);
      await onProgress?.(progress);
    };
    const following = follow(file, process_.ended, report).catch(stop);
    try {
      const [done, served, followed] = await Promise.allSettled([process_.ended, serving, following]);
      signal?.throwIfAborted();
      if (done.status === "rejected") {
        throw done.reason;
      }
      for (const work of [served, followed]) {
        if (work.status === "rejected") {
          throw work.reason;
        }
      }
      return done.value;
    } finally {
      signal?.removeEventListener("abort", interrupt);
      line?.clear();
    }
  }

  async #result(program: Program, done: Done): Promise<Result> {
    const document = done.document();
    const isExperiment = "experimentId" in document;
    const runIds = (isExperiment ? document["runIds"] : [document["runId"]]) as [string, ...string[]];
    const reports: Document[] = [];
    for (const run of isExperiment ? runIds : []) {
      reports.push(await program.run("run", "show", run, "--no-github"));
    }
    const first = reports[0] ?? document;
    const all = reports.length > 0 ? reports : [first];
    const statistics: Document = isExperiment ? document["statistics"] : await program.run("run", "statistics", runIds[0]);
    if (first["status"] === "cancelled") {
      throw new TouchstoneError("the evaluation was interrupted", { remedy: "evaluate again", code: "cancelled" });
    }
    const tasks = all.flatMap((report, index) => tasksOf(report, index + 1));
    const failures: Failure[] = [];
    for (const [index, run] of runIds.entries()) {
      failures.push(...(await this.#failures(program, run, tasks.filter((task) => task.trial === index + 1))));
    }
    const gate = statistics["gate"] as Document;
    const reasons: string[] = (isExperiment ? gate["reasons"] : first["reasons"]) ?? [];
    const costs = all.map((report) => report["summary"].totalCostUsd as number | null | undefined);
    return new Result({
      runIds,
      verdict: VERDICTS.get(done.code) ?? "inconclusive",
      reasons,
      score: {
        value: gate["score"] ?? first["summary"].aggregateScore,
        low: gate["low"] ?? null,
        high: gate["high"] ?? null,
        method: gate["method"] ?? null,
      },
      passRate: estimate(statistics["pass_rate"]),
      passScore: first["suite"].passScore ?? 1,
      tasks,
      failures,
      comparison: await this.#comparison(program, first),
      costUsd: costs.reduce<number | null>((sum, cost) => (sum === null || cost == null ? null : sum + cost), 0),
      durationMs: first["durationMs"] ?? null,
      notes: [...(first["notes"] ?? []), ...done.notes.filter((note) => !note.includes(this.#folder))],
      report: first,
      statistics,
    });
  }

  async #failures(program: Program, run: string, tasks: readonly Task[]): Promise<Failure[]> {
    const ended = tasks.filter((task) => task.outcome !== "passed");
    const trial = ended[0]?.trial;
    if (trial === undefined) {
      return [];
    }
    let documents: Document[];
    try {
      documents = await program.lines("run", "show", run, "--failed");
    } catch (error) {
      if (!(error instanceof TouchstoneError)) {
        throw error;
      }
      // The content is not retained (`content.retain`).
      documents = ended.map((task) => ({ ...task, taskId: task.id }));
    }
    return documents.map((document) => new Failure(document, trial, this.#thrown.by(document["input"])));
  }

  async #comparison(program: Program, report: Document): Promise<Comparison | null> {
    // A file is compared by the command, a run by the host.
    const compared = report["comparison"] as Document | undefined;
    if (compared !== undefined) {
      return comparisonOf(compared, compared["baseline"].runId ?? String(this.#options.baseline));
    }
    const baseline = report["summary"].regression?.baselineRunId as string | undefined;
    return baseline === undefined ? null : comparisonOf(await program.run("compare", baseline, report["runId"]), baseline);
  }
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then((found) => found.isDirectory(), () => false);
}
