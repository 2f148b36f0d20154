// Prints the members of types that only one of two folders with declarations has: node types.js OLD NEW
const fs = require("node:fs");
const path = require("node:path");
const ts = require("typescript");

/** members returns a line for each member of each declared type in a folder, with its comment. Those of a union have the values that tell them apart. */
function members(folder) {
  const lines = new Map();
  for (const name of ["sdk.d.ts", "sdk-tools.d.ts"]) {
    const file = ts.createSourceFile(name, fs.readFileSync(path.join(folder, name), "utf8"), ts.ScriptTarget.Latest, true);
    const text = (node) => node.getText(file).replace(/\s+/g, " ");
    const add = (line, node) => lines.set(line, (ts.getJSDocCommentsAndTags(node)[0]?.comment ?? "").toString().split("\n")[0]);
    /** values are the members of a type that have one literal as their type, such as subtype: "interrupt". */
    const values = (node) => node.members.filter((m) => m.type && !m.questionToken && ts.isLiteralTypeNode(m.type) && ts.isPropertySignature(m)).map((m) => `${text(m.name)}: ${text(m.type)}`);
    const walk = (prefix, node, owner) => {
      if (!node) return;
      if (ts.isParenthesizedTypeNode(node)) return walk(prefix, node.type, owner);
      if (ts.isUnionTypeNode(node) || ts.isIntersectionTypeNode(node)) {
        for (const one of node.types) walk(prefix, one, owner);
      } else if (ts.isArrayTypeNode(node)) {
        walk(prefix + "[]", node.elementType, owner);
      } else if (ts.isTypeLiteralNode(node) || ts.isInterfaceDeclaration(node)) {
        const which = values(node);
        const here = which.length > 0 ? `${prefix}{${which.join(", ")}}` : prefix;
        for (const m of node.members) {
          const label = `${here}.${m.name ? text(m.name) : text(m)}${m.questionToken ? "?" : ""}`;
          walk(label, m.type, m);
        }
      } else {
        add(`${prefix}: ${text(node)}`, owner);
      }
    };
    for (const statement of file.statements) {
      if (ts.isTypeAliasDeclaration(statement)) walk(text(statement.name), statement.type, statement);
      else if (ts.isInterfaceDeclaration(statement)) walk(text(statement.name), statement, statement);
    }
  }
  return lines;
}

const [old, now] = process.argv.slice(2).map(members);
const changes = [];
for (const [line, comment] of now) if (!old.has(line)) changes.push([line, "+", comment]);
for (const line of old.keys()) if (!now.has(line)) changes.push([line, "-", ""]);
changes.sort((a, b) => (a[0] < b[0] ? -1 : 1));
for (const [line, sign, comment] of changes) console.log(`${sign} ${line}${comment ? "  // " + comment : ""}`);
console.log(`${changes.length} of ${now.size} members differ`);
