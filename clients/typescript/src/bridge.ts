/*
 * Answers the questions of the program in this process.
 *
 * The program starts a command line as the agent (docs/agent-commands.md). Here the command line only
 * copies lines between the program and two sockets of this process, which the program inherits under
 * fixed numbers. So it is the same in every run: its digest is the identity of the agent (ADR 60).
 */
import type { Readable, Writable } from "node:stream";

import { TouchstoneError } from "./errors.js";
import { key, lines, stringify } from "./json.js";
import { type Agent, Answer, type Document, type Judge, type Judgement, type Question } from "./types.js";

/** Bytes that the program accepts as one line, less what surrounds an answer. */
const MOST_BYTES = (8 << 20) - 64;

type Reply = (raw: Document) => Promise<Document>;

/** Two sockets by their numbers in the program, and what answers the questions. */
export class Bridge {
  readonly command: string;

  constructor(
    readonly ask: number,
    readonly answer: number,
    label: string,
    private readonly reply: Reply,
  ) {
    // A shell gives background jobs no standard input, hence the copy. `dash` accepts only one digit.
    this.command = `exec 9<&0; cat <&9 >&${ask} & exec cat <&${answer} # ${label}`;
  }

  /** Answers each question as soon as it can, until the program ends. Throws if a question is malformed. */
  async serve(questions: Readable, answers: Writable): Promise<void> {
    answers.on("error", () => {
      // The program has ended.
    });
    try {
      for await (const line of lines(questions)) {
        void this.#answer(parsed(line), answers);
      }
    } catch (error) {
      if (error instanceof TouchstoneError) {
        throw error;
      }
      // The stream was closed before its end, together with the process.
    }
  }

  async #answer(question: Document, answers: Writable): Promise<void> {
    const reply = stringify({ id: question["id"], ...(await this.reply(question)) });
    if (answers.writable) {
      answers.write(`${reply}\n`);
    }
  }
}

/** A question of the program. Its content is not part of the error, because it is that of a task. */
function parsed(line: string): Document {
  const malformed = (why: string): TouchstoneError =>
    new TouchstoneError(`the program asked a malformed question: ${why}`, {
      remedy: "install equal versions of the program and of this package",
    });
  let question: unknown;
  try {
    question = JSON.parse(line);
  } catch {
    throw malformed("a line is not JSON");
  }
  if (question === null || typeof question !== "object" || !("id" in question)) {
    throw malformed("a line is not an object with an id");
  }
  return question as Document;
}

/** The name of a function in the identity of the agent. */
export function label(function_: { readonly name: string }, version?: string): string {
  const name = function_.name || "anonymous";
  return `node:${name}${version === undefined ? "" : ` version ${version}`}`.replace(/[^\w.:<>@ +-]/gu, "_");
}

/** What agent and judge threw, by the input of the task. */
export class Thrown {
  readonly #byInput = new Map<string, unknown>();

  /** The last one counts, because the program repeats some questions. */
  keep(input: unknown, error: unknown): Document {
    this.#byInput.set(key(input), error);
    return { error: String(error).slice(0, 2000) };
  }

  by(input: unknown): unknown {
    return this.#byInput.get(key(input));
  }
}

export function repliesOfAgent<Input>(agent: Agent<Input>, signal: AbortSignal, thrown: Thrown): Reply {
  return async (raw) => {
    try {
      const found = wire(await agent(raw["input"] as Input, questionOf(raw, signal)));
      const size = Buffer.byteLength(stringify(found));
      if (size > MOST_BYTES) {
        throw new RangeError(`the answer has ${size} bytes, and at most ${MOST_BYTES} are accepted`);
      }
      return found;
    } catch (error) {
      return thrown.keep(raw["input"], error);
    }
  };
}

function questionOf<Input>(raw: Document, signal: AbortSignal): Question<Input> {
  return {
    input: raw["input"] as Input,
    messages: raw["messages"] ?? [],
    tools: raw["tools"] ?? [],
    turn: raw["turn"] ?? 0,
    attachments: raw["attachments"] ?? [],
    responseSchema: raw["responseSchema"],
    definitions: raw["definitions"] ?? [],
    raw,
    signal,
  };
}

/** An answer as the program reads it. */
function wire(answered: unknown): Document {
  if (!(answered instanceof Answer)) {
    return { output: answered ?? null };
  }
  const { output, toolCalls = [], refused = false, inputTokens, outputTokens } = answered.parts;
  const found: Document = refused
    ? { refused }
    : toolCalls.length > 0
      ? { toolCalls: toolCalls.map((call) => ({ arguments: {}, ...call })) }
      : { output: output ?? null };
  if (inputTokens !== undefined || outputTokens !== undefined) {
    found["usage"] = { inputTokens: inputTokens ?? 0, outputTokens: outputTokens ?? 0 };
  }
  return found;
}

export function repliesOfJudge<Input>(judge: Judge<Input>, thrown: Thrown): Reply {
  return async (raw) => {
    try {
      const match: Document = raw["expected"]?.match ?? {};
      // What the suite says if only assertions decide.
      const nothing = match["strategy"] === "contains" && match["value"] === "";
      const { passed, score, reason } = judgement(
        await judge({
          task: raw["task"],
          input: raw["input"] as Input,
          output: raw["output"],
          expected: nothing ? undefined : match["value"],
          name: raw["name"],
          config: raw["config"],
          toolCalls: raw["toolCalls"] ?? [],
          latencyMs: raw["latencyMs"],
          costUsd: raw["costUsd"],
        }),
      );
      return { pass: passed, score, reason };
    } catch (error) {
      return thrown.keep(raw["input"], error);
    }
  };
}

function judgement(found: unknown): Judgement {
  const decided =
    typeof found === "boolean" ? { passed: found } : typeof found === "number" ? { passed: found >= 0.5, score: found } : found;
  if (decided === null || typeof decided !== "object" || !("passed" in decided) || typeof decided.passed !== "boolean") {
    throw new TypeError(`a judge must return a boolean, a score or { passed, score, reason }, not ${typeof found}`);
  }
  const { score } = decided as Judgement;
  if (score !== undefined && !(score >= 0 && score <= 1)) {
    throw new RangeError(`the score of a judge must be between 0 and 1, got ${score}`);
  }
  return decided as Judgement;
}
