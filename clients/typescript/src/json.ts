import type { Readable } from "node:stream";

/** Compact JSON. Throws for what JSON would lose, such as NaN, a Map or a function. */
export function stringify(value: unknown): string {
  return JSON.stringify(value === undefined ? null : value, refuseWhatIsLost);
}

function refuseWhatIsLost(_name: string, value: unknown): unknown {
  const lost =
    typeof value === "number"
      ? !Number.isFinite(value)
      : typeof value === "bigint" || typeof value === "function" || typeof value === "symbol";
  if (lost || value instanceof Map || value instanceof Set) {
    const kind = typeof value === "number" ? String(value) : typeof value === "object" ? value?.constructor.name : typeof value;
    throw new TypeError(`${kind} is not JSON: use strings, numbers, booleans, arrays and plain objects`);
  }
  return value;
}

/** Equal for values that are equal as JSON. */
export function key(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) =>
    member !== null && typeof member === "object" && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}

/** The lines of a stream. `readline` would also split at U+2028, which JSON strings may contain. */
export async function* lines(stream: Readable | AsyncIterable<string>): AsyncGenerator<string> {
  if ("setEncoding" in stream) {
    stream.setEncoding("utf8");
  }
  let rest = "";
  for await (const chunk of stream as AsyncIterable<string>) {
    rest += chunk;
    if (chunk.includes("\n")) {
      const parts = rest.split("\n");
      rest = parts.pop() ?? "";
      yield* parts;
    }
  }
  if (rest !== "") {
    yield rest;
  }
}
