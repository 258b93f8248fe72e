import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";

import { BinaryNotFound, InvalidArguments, InvalidCases, TouchstoneError } from "./errors.js";
import { lines } from "./json.js";
import type { Document } from "./types.js";

/** Milliseconds that an interrupted program has to end its run. */
const PATIENCE = 10_000;
const KEPT_NOTES = 200;
const OF_CASES = new Set(["cases_unknown_format", "not_imported", "unreadable"]);
const COMPLETED = new Set([0, 1, 4]);

/** One listener for all: Node.js warns about more than ten. */
const running = new Set<ChildProcess>();
process.on("exit", () => running.forEach((child) => child.kill("SIGINT")));

/** The end of the program. */
export class Done {
  constructor(
    readonly code: number,
    readonly output: string,
    readonly notes: readonly string[],
  ) {}

  /** The JSON that it printed. Throws what it reports as an error. */
  document(): Document {
    const found = parsed(this.output);
    if (found?.["ok"] === false) {
      throw errorOf(found["error"] as Document, this.code);
    }
    if (found === undefined || !COMPLETED.has(this.code)) {
      const said = this.notes.slice(-3).join("; ") || "it printed nothing";
      throw new TouchstoneError(`touchstone ended with exit code ${this.code}: ${said}`);
    }
    return found;
  }
}

function parsed(text: string): Document | undefined {
  try {
    return JSON.parse(text) as Document;
  } catch {
    return undefined;
  }
}

/** A remedy with the names of arguments instead of those of options. */
function inCode(remedy: string | null | undefined): string | undefined {
  const option = /--(baseline-key|baseline|cases|config|data|judge|pass-score)\b(?: [A-Z]+\b)?/g;
  const camel = (name: string) => name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
  return remedy?.replace(option, (_, name: string) => `\`${camel(name)}\``);
}

function errorOf(error: Document, code: number): TouchstoneError {
  const Kind = code !== 2 ? TouchstoneError : OF_CASES.has(error["code"]) ? InvalidCases : InvalidArguments;
  return new Kind(error["message"], { remedy: inCode(error["remedy"]), code: error["code"] });
}

/** One process of the program. Its descriptors from 3 on are sockets to this process if `sockets` says so. */
export class Process {
  readonly ended: Promise<Done>;
  readonly #child: ChildProcess;
  readonly #notes: string[] = [];
  #output = "";
  #deadline: NodeJS.Timeout | undefined;

  constructor(binary: string, arguments_: readonly string[], environment: NodeJS.ProcessEnv, sockets: readonly boolean[] = []) {
    const extra = sockets.map((wanted) => (wanted ? ("pipe" as const) : ("ignore" as const)));
    const child = spawn(binary, arguments_, { env: environment, stdio: ["ignore", "pipe", "pipe", ...extra] });
    this.#child = child;
    this.readable(1).setEncoding("utf8").on("data", (text: string) => (this.#output += text));
    void this.#readNotes();
    running.add(child);
    this.ended = new Promise<Done>((resolve, reject) => {
      child.once("error", (cause) => reject(new BinaryNotFound(`${binary} cannot be executed: ${cause.message}`, { cause })));
      child.once("exit", (code, signal) => {
        const finish = (): void => {
          clearTimeout(patience);
          const notes = signal === null ? this.#notes : [...this.#notes, `it was ended by ${signal}`];
          resolve(new Done(code ?? -1, this.#output, notes));
        };
        // A process that the program started may hold its standard error.
        const patience = setTimeout(finish, PATIENCE);
        child.once("close", finish);
      });
    }).finally(() => {
      clearTimeout(this.#deadline);
      running.delete(child);
      for (const stream of child.stdio) {
        stream?.destroy();
      }
    });
  }

  readable(descriptor: number): Readable {
    return this.#child.stdio[descriptor] as Readable;
  }

  writable(descriptor: number): Writable {
    return this.#child.stdio[descriptor] as Writable;
  }

  /** Cancels the run; the program then ends by itself. */
  interrupt(): void {
    this.#child.kill("SIGINT");
    this.#deadline ??= setTimeout(() => this.#child.kill("SIGKILL"), PATIENCE);
  }

  async #readNotes(): Promise<void> {
    try {
      for await (const line of lines(this.readable(2))) {
        if (line.trim() !== "") {
          this.#notes.push(line.trim());
          this.#notes.splice(0, this.#notes.length - KEPT_NOTES);
        }
      }
    } catch {
      // The stream was closed before its end, together with the process.
    }
  }
}

/** The program with the options that every command gets. */
export class Program {
  constructor(
    readonly binary: string,
    readonly options: readonly string[],
    readonly environment: NodeJS.ProcessEnv,
  ) {}

  start(arguments_: readonly string[], sockets: readonly boolean[] = []): Process {
    return new Process(this.binary, ["--json", ...this.options, ...arguments_], this.environment, sockets);
  }

  /** The JSON that a command prints. */
  async run(...arguments_: string[]): Promise<Document> {
    return (await this.start(arguments_).ended).document();
  }

  /** The JSON documents that a command prints, one per line. */
  async lines(...arguments_: string[]): Promise<Document[]> {
    const done = await this.start(arguments_).ended;
    if (done.code !== 0) {
      done.document();
    }
    return done.output.split("\n").filter(Boolean).map((line) => JSON.parse(line) as Document);
  }
}
