// Bundle the extension, its webviews and its tests into dist/.
import { readdirSync } from "node:fs";
import esbuild from "esbuild";

const flags = new Set(process.argv.slice(2));
const production = flags.has("--production");
const common = {
  bundle: true,
  loader: { ".svg": "text" },
  logLevel: "warning",
  minify: production,
  sourcemap: !production,
};

const extension = {
  ...common,
  entryPoints: ["src/extension.ts"],
  outdir: "dist",
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
};
const webviews = {
  ...common,
  entryPoints: {
    chat: "src/webview/chat.ts",
    context: "src/webview/context.ts",
    highlight: "src/webview/highlight.ts",
  },
  outdir: "dist",
  platform: "browser",
  format: "iife",
  target: "chrome120",
};
const tests = {
  ...common,
  minify: false,
  entryPoints: readdirSync("test")
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `test/${name}`),
  outdir: "dist/test",
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["jsdom", "axe-core"],
};

const wanted = flags.has("--tests") ? [tests, webviews] : [extension, webviews];
if (flags.has("--watch")) {
  for (const options of wanted) await (await esbuild.context(options)).watch();
} else {
  await Promise.all(wanted.map((options) => esbuild.build(options)));
}
