import { open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import type { Document, Outcome, Progress } from "./types.js";

const INTERVAL_MS = 50;

/**
 * Reads what `eval --progress` appends to a file, until `ended` settles and all is read. A file and not
 * a pipe, because Node.js gives a child process only sockets, which cannot be opened by a path.
 */
export async function follow(
  path: string,
  ended: Promise<unknown>,
  report: (progress: Progress) => unknown,
): Promise<void> {
  const runs: string[] = [];
  let hasEnded = false;
  const settled = ended.then(
    () => (hasEnded = true),
    () => (hasEnded = true),
  );
  const file = await open(path, "a+");
  try {
    const decoder = new TextDecoder();
    let rest = "";
    let position = 0;
    const buffer = Buffer.alloc(64 * 1024);
    for (;;) {
      // What the program wrote before its end is there when the next read begins.
      const last = hasEnded;
      const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
      position += bytesRead;
      const parts = (rest + decoder.decode(buffer.subarray(0, bytesRead), { stream: true })).split("\n");
      rest = parts.pop() ?? "";
      for (const line of parts) {
        const event = JSON.parse(line) as Document;
        const run = event["runId"] as string;
        if (!runs.includes(run)) {
          runs.push(run);
        }
        if (event["type"] === "task") {
          await report(progressOf(event, runs.indexOf(run) + 1));
        }
      }
      if (bytesRead === 0) {
        if (last) {
          return;
        }
        await Promise.race([settled, sleep(INTERVAL_MS)]);
      }
    }
  } finally {
    await file.close();
  }
}

function progressOf(event: Document, trial: number): Progress {
  return {
    task: event["taskId"],
    outcome: event["outcome"],
    score: event["score"],
    done: event["done"],
    total: event["total"],
    runId: event["runId"],
    trial,
  };
}

/** One line on standard error, which must be a terminal. */
export class Line {
  readonly #counts: Record<Outcome, number> = { passed: 0, failed: 0, unjudged: 0 };

  show(progress: Progress): void {
    this.#counts[progress.outcome] += 1;
    const counts = Object.entries(this.#counts).map(([outcome, count]) => `${count} ${outcome}`);
    const total = progress.total === null ? "" : `/${progress.total}`;
    process.stderr.write(`\r\x1b[K${progress.done}${total}  ${counts.join("  ")}`);
  }

  clear(): void {
    process.stderr.write("\r\x1b[K");
  }
}
