#!/usr/bin/env node
// Starts the program that the package for this kind of machine contains.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const PLATFORMS = { "linux x64": "@touchstone-evals/linux-x64" };
// The exit code of a command that could not be completed.
const NOT_DONE = 3;

function program() {
  const kind = `${process.platform} ${process.arch}`;
  const name = PLATFORMS[kind];
  if (!name) {
    throw new Error(`there is no program for ${kind} yet; there are programs for ${Object.keys(PLATFORMS).join(", ")}`);
  }
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/touchstone`);
  } catch {
    throw new Error(
      `the package ${name}, which contains the program, is not installed\n` +
        `  try: npm install --include=optional ${name}\n` +
        "  A lock file that was written on another kind of machine can cause this; remove it and install again.",
    );
  }
}

let child;
try {
  child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
} catch (cause) {
  console.error(`error: ${cause.message}`);
  process.exit(NOT_DONE);
}
child.on("error", (cause) => {
  console.error(`error: the program did not start: ${cause.message}`);
  process.exit(NOT_DONE);
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("exit", (code, signal) => {
  if (signal) {
    // The shell shall see the same end. The own handler would keep this process alive.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code ?? NOT_DONE);
  }
});
