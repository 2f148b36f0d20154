#!/usr/bin/env node
// Runs the program that npm has installed for this system, as if it had been called itself.
"use strict";
const { spawn } = require("node:child_process");

const name = `@teambridge/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/teambridge${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`teambridge: ${name} is not installed: there is none for this system, or npm was told to leave out optional packages (--omit=optional). Install teambridge again without that, or from an archive`);
  process.exit(1);
}
const args = process.argv.slice(2);
if (process.execve) {
  process.removeAllListeners("warning");
  process.on("warning", () => {}); // that execve is new
  try {
    process.execve(program, [program, ...args], process.env);
  } catch {} // Windows has none
}
const child = spawn(program, args, { stdio: "inherit" });
// What a terminal sends to both, the program answers alone; what is sent to this process is passed on.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) process.on(signal, () => signal === "SIGINT" && process.stdin.isTTY || child.kill(signal));
child.on("error", (err) => {
  console.error(`teambridge: ${program}: ${err.message}`);
  process.exit(1);
});
child.on("exit", (status, signal) => {
  if (!signal) process.exit(status);
  for (const s of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) process.removeAllListeners(s);
  process.kill(process.pid, signal);
});
