// Bundles the viewer into quadric/viewer/static: node build.mjs [folder]
import { build } from "esbuild";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "../quadric/viewer/static"));
const fonts = join(here, "node_modules/@fontsource-variable/inter");
const shared = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: "es2022",
  legalComments: "none",
  logLevel: "warning",
};
const jsx = { jsx: "automatic", jsxImportSource: "preact" };

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "assets"), { recursive: true });
await build({ ...shared, ...jsx, entryPoints: ["src/main.tsx"], format: "esm", outfile: join(out, "assets/app.js") });
await build({
  ...shared,
  entryPoints: ["src/app.css"],
  outfile: join(out, "assets/app.css"),
  external: ["*.woff2"],
});
// The picture of one latent as one script and one style sheet, which a notebook holds in a frame.
await build({
  ...shared,
  ...jsx,
  entryPoints: ["src/notebook.tsx"],
  format: "iife",
  outfile: join(out, "notebook.js"),
});
await build({ ...shared, entryPoints: ["src/notebook.css"], outfile: join(out, "notebook.css") });

const policy = Object.entries(JSON.parse(readFileSync(join(here, "csp.json"), "utf8")))
  .map(([directive, value]) => `${directive} ${value}`)
  .join("; ");
writeFileSync(join(out, "index.html"), readFileSync(join(here, "src/index.html"), "utf8").replace("%CSP%", policy));
cpSync(join(here, "src/icon.svg"), join(out, "assets/icon.svg"));
for (const subset of ["latin", "latin-ext", "greek"])
  cpSync(join(fonts, `files/inter-${subset}-wght-normal.woff2`), join(out, `assets/inter-${subset}.woff2`));
const licences = ["@fontsource-variable/inter", "preact"].map(
  (name) => `${name}\n\n${readFileSync(join(here, "node_modules", name, "LICENSE"), "utf8")}`,
);
writeFileSync(join(out, "assets/licences.txt"), licences.join("\n\n----\n\n"));
