#!/usr/bin/env node
// Starts the program that `TOUCHSTONE_BIN` names, or that the package for this kind of machine contains.
import { spawn } from "node:child_process";
import { constants } from "node:os";

import { named, packaged } from "./locate.js";

// The exit code of a command that could not be completed.
const NOT_DONE = 3;

function refuse(message: string): never {
  console.error(`error: ${message}`);
  process.exit(NOT_DONE);
}

function program(): string {
  try {
    return named() ?? packaged();
  } catch (cause) {
    return refuse(cause instanceof Error ? cause.message : String(cause));
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (cause) => refuse(`the program did not start: ${cause.message}`));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => child.kill(signal));
}
child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code ?? NOT_DONE);
  }
  // The shell must see the same end. The handler above would keep this process alive.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // For signals that the process survives.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000);
});
