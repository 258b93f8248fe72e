/**
 * Evaluate AI agents: verdicts with confidence intervals, baselines, transcripts.
 *
 *     const result = await evaluate({ cases, agent: answer, passScore: 0.8 });
 *     console.log(result.summary());
 */
export { Client, type ClientOptions, type CreateRunOptions } from "./client.js";
export { BinaryNotFound, HostError, InvalidArguments, InvalidCases, TouchstoneError, VerdictNotReached } from "./errors.js";
export { evaluate, type EvaluateOptions } from "./evaluate.js";
export { type Change, type Comparison, type Estimate, type Failure, type Result, type Task } from "./result.js";
export {
  type Agent,
  Answer,
  type AnswerParts,
  type Case,
  type Cases,
  type Decision,
  type Document,
  type Endpoint,
  type Judge,
  type Judged,
  type Judgement,
  type Match,
  type Outcome,
  type Progress,
  type Provider,
  type Question,
  type ToolCall,
  type Verdict,
} from "./types.js";
