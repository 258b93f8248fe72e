import type { Result } from "./result.js";

interface Details {
  readonly remedy?: string | undefined;
  readonly code?: string | undefined;
  readonly cause?: unknown;
}

/** The evaluation could not be completed. */
export class TouchstoneError extends Error {
  /** The next step, if there is one. */
  readonly remedy: string | undefined;
  /** The error code of the program or host, if it reported one. */
  readonly code: string | undefined;

  constructor(message: string, { remedy, code, cause }: Details = {}) {
    super(remedy === undefined ? message : `${message}. Try: ${remedy}`, cause === undefined ? {} : { cause });
    this.name = new.target.name;
    this.remedy = remedy;
    this.code = code;
  }

  /**
   * The error without the paths of a folder that no longer exists.
   * @internal
   */
  without(folder: string): TouchstoneError {
    if (!this.message.includes(folder)) {
      return this;
    }
    const Kind = this.constructor as typeof TouchstoneError;
    const kept = this.remedy?.includes(folder) === true ? undefined : this.remedy;
    const [told = this.message] = this.message.split(`. Try: ${this.remedy}`);
    return new Kind(told.replaceAll(`${folder}/`, ""), { remedy: kept, code: this.code, cause: this.cause });
  }
}

/** The `touchstone` program is not installed, or cannot be executed. */
export class BinaryNotFound extends TouchstoneError {}

/** An option has an invalid value, or does not go with another one. */
export class InvalidArguments extends TouchstoneError {}

/** The cases cannot be read. */
export class InvalidCases extends InvalidArguments {}

/** The verdict is not a pass; thrown by `result.assertPassed()`. */
export class VerdictNotReached extends TouchstoneError {
  constructor(
    message: string,
    readonly result: Result,
  ) {
    super(message);
  }
}

/** A host refused a request of `Client`. */
export class HostError extends TouchstoneError {
  constructor(
    /** The status of HTTP. */
    readonly status: number,
    code: string | undefined,
    message: string,
    /** What the host added, by name. */
    readonly details: Readonly<Record<string, unknown>>,
  ) {
    const remedy = status === 401 ? "pass a key, or set TOUCHSTONE_KEY" : undefined;
    super(`${message} (HTTP ${status})`, { remedy, code });
  }
}
