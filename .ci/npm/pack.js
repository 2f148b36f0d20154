// Makes the packages for npm: one for each system, with its program, and the one that people install, which picks among them.
// usage: node .ci/npm/pack.js DIST VERSION
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { execFileSync } = require("node:child_process");

const [dist, version] = process.argv.slice(2);
const out = path.resolve(dist, "npm");
fs.mkdirSync(out);
const common = { version, license: "MIT", description: "Messages between people, programs and coding agents", homepage: process.env.TEAMBRIDGE_HOME };

function pack(name, json, files) {
  const dir = path.join(out, "src", name);
  for (const [to, from, mode] of files) {
    fs.mkdirSync(path.dirname(path.join(dir, to)), { recursive: true });
    fs.copyFileSync(from, path.join(dir, to));
    fs.chmodSync(path.join(dir, to), mode);
  }
  fs.writeFileSync(path.join(dir, "package.json"), JSON.stringify({ name, ...common, ...json }, null, 2) + "\n");
  execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", out, dir], { stdio: ["ignore", "ignore", "inherit"] });
}

const os = { linux: "linux", darwin: "darwin", windows: "win32" };
const cpu = { amd64: "x64", arm64: "arm64" };
const optionalDependencies = {};
// GoReleaser lists them in the order in which they were done.
const artifacts = JSON.parse(fs.readFileSync(path.join(dist, "artifacts.json"))).sort((a, b) => (a.path < b.path ? -1 : 1));
for (const a of artifacts) {
  if (a.type !== "Binary" || a.extra.ID !== "teambridge") continue;
  const name = `@teambridge/${os[a.goos]}-${cpu[a.goarch]}`;
  pack(name, { os: [os[a.goos]], cpu: [cpu[a.goarch]], preferUnplugged: true }, [["bin/" + a.name, a.path, 0o755], ["LICENSE", "LICENSE", 0o644]]);
  optionalDependencies[name] = version;
}
if (Object.keys(optionalDependencies).length === 0) throw new Error(`${dist}/artifacts.json names no program`);
pack("teambridge", { bin: { teambridge: "teambridge.js" }, engines: { node: ">=18" }, optionalDependencies }, [
  ["teambridge.js", path.join(__dirname, "teambridge.js"), 0o755],
  ["README.md", "README.md", 0o644],
  ["LICENSE", "LICENSE", 0o644],
]);
fs.rmSync(path.join(out, "src"), { recursive: true });
