import { execFileSync } from "node:child_process";
import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

import { BinaryNotFound } from "./errors.js";

const PLATFORMS = new Map([["linux x64", "@touchstone-evals/linux-x64"]]);
const VARIABLE = "TOUCHSTONE_BIN";
const require = createRequire(import.meta.url);

export const VERSION: string = (require("../package.json") as { version: string }).version;

/** The program in the package for this kind of machine, which npm installs beside this one. */
export function packaged(): string {
  const kind = `${process.platform} ${process.arch}`;
  const name = PLATFORMS.get(kind);
  if (name === undefined) {
    throw new BinaryNotFound(`there is no program for ${kind} yet; there are programs for ${[...PLATFORMS.keys()].join(", ")}`, {
      remedy: `build the program from source, and set ${VARIABLE} to its path`,
    });
  }
  try {
    return require.resolve(`${name}/bin/touchstone`);
  } catch {
    throw new BinaryNotFound(`the package ${name}, which contains the program, is not installed`, {
      remedy:
        `npm install --include=optional ${name}, or set ${VARIABLE}. ` +
        "A lock file that was written on another kind of machine can cause this; remove it and install again",
    });
  }
}

/** The program that `TOUCHSTONE_BIN` names. */
export function named(): string | undefined {
  const path = process.env[VARIABLE] || undefined;
  if (path !== undefined && !isExecutable(path)) {
    throw new BinaryNotFound(`${VARIABLE} is ${path}, which is not an executable file`, { remedy: `correct or unset ${VARIABLE}` });
  }
  return path;
}

/** The program that `TOUCHSTONE_BIN` names, else the one that npm installed, else the one in `PATH`. */
export function find(): string {
  const path = named();
  if (path !== undefined) {
    return path;
  }
  try {
    return packaged();
  } catch (missing) {
    const found = inPath();
    if (found === undefined) {
      throw missing;
    }
    return found;
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function inPath(): string | undefined {
  // npm puts the launcher of this package into `PATH`, which has no program either.
  const launcher = fileURLToPath(new URL("cli.js", import.meta.url));
  const found = (process.env["PATH"] ?? "")
    .split(delimiter)
    .map((folder) => join(folder, "touchstone"))
    .find((file) => isExecutable(file) && realpathSync(file) !== launcher);
  if (found !== undefined) {
    checkVersion(found);
  }
  return found;
}

function checkVersion(path: string): void {
  let version: string;
  try {
    version = execFileSync(path, ["--version"], { encoding: "utf8", timeout: 30_000 }).trim().replace(/^touchstone /, "");
  } catch (cause) {
    throw new BinaryNotFound(`${path} cannot be executed`, { remedy: `correct it, or set ${VARIABLE}`, cause });
  }
  if (version !== VERSION) {
    process.emitWarning(`${path} is version ${version}, but this package is ${VERSION}: install equal versions, or set ${VARIABLE}`);
  }
}
