/** A JSON document of the program or the HTTP API. */
export type Document = Record<string, any>;

export type Match = "exact" | "contains";
export type Provider = "openai" | "anthropic";
export type Outcome = "passed" | "failed" | "unjudged";

/**
 * Whether the agent reaches the pass score (docs/statistics.md): the whole confidence interval reaches
 * it; the score or the whole interval is below it; or some tasks are unjudged or there are too few.
 */
export type Verdict = "pass" | "fail" | "inconclusive";

/**
 * One task: an input, and what makes an answer right. An answer is right if it equals `expected` (or
 * contains it, see `match`), meets the criteria of `rubric` as a judge decides, or meets `assertions`
 * (docs/assertions.md).
 */
export interface Case<Input = unknown> {
  readonly input: Input;
  readonly expected?: unknown;
  /** Lower-case letters, digits and hyphens. Default: `case-1`, … */
  readonly id?: string | undefined;
  readonly match?: Match | undefined;
  readonly rubric?: readonly string[] | undefined;
  readonly assertions?: readonly Readonly<Document>[] | undefined;
  /** The score from which the assertions count as met, from 0 to 1. */
  readonly threshold?: number | undefined;
  readonly tags?: readonly string[] | undefined;
}

/** Cases, or the path of a file with them: a suite, CSV, JSON lines, YAML, Parquet, or a pack folder. */
export type Cases<Input = unknown> = string | readonly Case<Input>[];

/** Everything that an agent is asked (docs/agent-commands.md). */
export interface Question<Input = unknown> {
  readonly input: Input;
  readonly messages: readonly Readonly<Document>[];
  readonly tools: readonly string[];
  /** Number of the user's messages after the input of the task. */
  readonly turn: number;
  readonly attachments: readonly Readonly<Document>[];
  readonly responseSchema: Readonly<Document> | undefined;
  readonly definitions: readonly Readonly<Document>[];
  /** The question as the program sent it. */
  readonly raw: Readonly<Document>;
  /** Aborted when the evaluation ends, such as for requests of an answer that took too long. */
  readonly signal: AbortSignal;
}

/** A tool that the agent wants to be called. */
export interface ToolCall {
  readonly tool: string;
  readonly arguments?: Readonly<Record<string, unknown>> | undefined;
  readonly id?: string | undefined;
}

export interface AnswerParts {
  readonly output?: unknown;
  /** The agent is asked again with the results of the calls. */
  readonly toolCalls?: readonly ToolCall[] | undefined;
  /** Fails the task. */
  readonly refused?: boolean | undefined;
  readonly inputTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
}

/** An answer with more than an output: return it from an agent. */
export class Answer {
  constructor(readonly parts: AnswerParts) {}
}

/** Returns a string, another JSON value or an `Answer`, or a promise of one. */
export type Agent<Input = unknown> = (input: Input, question: Question<Input>) => unknown;

/** What a judge decides about. */
export interface Judged<Input = unknown> {
  readonly task: string;
  readonly input: Input;
  readonly output: unknown;
  /** The expected answer, or `undefined` if the case has none. */
  readonly expected: unknown;
  /** The name of the assertion: `judge`, unless the suite names checks of its own. */
  readonly name: string;
  readonly config: unknown;
  readonly toolCalls: readonly Readonly<Document>[];
  readonly latencyMs: number | undefined;
  readonly costUsd: number | undefined;
}

export interface Judgement {
  readonly passed: boolean;
  /** From 0 to 1. */
  readonly score?: number | undefined;
  /** For people. */
  readonly reason?: string | undefined;
}

/** A score passes from 0.5 on. */
export type Decision = boolean | number | Judgement;
export type Judge<Input = unknown> = (judged: Judged<Input>) => Decision | Promise<Decision>;

/** A model at an endpoint. */
export interface Endpoint {
  readonly url: string;
  readonly model: string;
  /** Default: `openai`. */
  readonly provider?: Provider | undefined;
  /** Default: `TOUCHSTONE_MODEL_API_KEY`, else `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`. */
  readonly apiKey?: string | undefined;
}

/** A task has ended. `done` and `total` count the tasks of this trial. */
export interface Progress {
  readonly task: string;
  readonly outcome: Outcome;
  readonly score: number | null;
  readonly done: number;
  readonly total: number | null;
  readonly runId: string;
  readonly trial: number;
}
