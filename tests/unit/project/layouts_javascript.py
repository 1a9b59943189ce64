"""JavaScript and TypeScript projects, alone and several in one repository."""

from __future__ import annotations

from task_layouts import Layout

_TEST = """
    const test = require("node:test");

    test("adds", () => {});
    """
_WEB = '{"name": "web", "version": "1.0.0", "scripts": {"test": "node --version"}}'
_API = """
    {"name": "api", "version": "1.0.0",
     "scripts": {"test": "node --version", "build": "node --version"}}
    """

JAVASCRIPT = (
    Layout(
        "npm",
        {
            "package.json": """
                {"name": "x", "version": "1.0.0", "main": "index.js",
                 "scripts": {"test": "node --test", "build": "node --check index.js",
                             "dev": "node index.js", "install": "node --version",
                             "lint": "node --check index.js", "format": "node --version"}}
                """,
            "package-lock.json": """
                {"name": "x", "version": "1.0.0", "lockfileVersion": 3, "packages": {}}
                """,
            "index.js": "console.log('hello');\n",
            "test/index.test.js": _TEST,
        },
        {
            "test": "package.json: npm test",
            "build": "package.json: npm run build",
            "run": "package.json: node index.js",
            "start": "package.json: npm run dev",
            "lint": "package.json: npm run lint",
            "format": "package.json: npm run format",
            "install": "package.json: npm install",
        },
        needs=("npm",),
        runs=("install", "test", "build", "run", "start", "lint", "format"),
    ),
    Layout(
        "Node's own test runner",
        {
            "package.json": '{"name": "x", "version": "1.0.0"}',
            "server.js": "console.log('hello');\n",
            "test/server.js": _TEST,
        },
        {
            "test": "test/server.js: node --test",
            "run": "package.json: node server.js",
            "start": "package.json: node server.js",
            "install": "package.json: npm install",
        },
        needs=("node", "npm"),
        runs=("install", "test", "run"),
    ),
    Layout(
        "an npm workspace",
        {
            "package.json": """
                {"name": "x", "private": true, "workspaces": ["packages/*"],
                 "scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}
                """,
            "packages/web/package.json": _WEB,
            "packages/api/package.json": _API,
        },
        {
            "test": "package.json: npm run test --workspaces --if-present",
            "build": "package.json: npm run build --workspaces --if-present",
            "install": "package.json: npm install",
        },
        needs=("npm",),
        runs=("install", "test", "build"),
    ),
    Layout(
        "a pnpm workspace",
        {
            "package.json": '{"name": "x", "private": true}',
            "pnpm-workspace.yaml": "packages:\n  # all\n  - 'packages/*'\n  - '!packages/old'\n",
            "pnpm-lock.yaml": "lockfileVersion: '9.0'\n",
            "packages/web/package.json": _WEB,
            "packages/api/package.json": _API,
            "packages/old/package.json": '{"name": "old", "scripts": {"lint": "false"}}',
        },
        {
            "test": "pnpm-workspace.yaml: pnpm --recursive run test",
            "build": "pnpm-workspace.yaml: pnpm --recursive run build",
            "lint": "packages/old/package.json: (cd packages/old && pnpm run lint)",
            "install": "package.json: pnpm install",
        },
        needs=("pnpm",),
        runs=("install", "test", "build"),
        environment={"CI": ""},
    ),
    Layout(
        "a Yarn 1 workspace",
        {
            "package.json": '{"name": "x", "private": true, "workspaces": ["web", "api"]}',
            "yarn.lock": "",
            "web/package.json": _WEB,
            "api/package.json": _API,
        },
        {
            "test": "package.json: yarn workspaces run test",
            "build": "api/package.json: (cd api && yarn run build)",
            "install": "package.json: yarn install",
        },
        needs=("yarn",),
        runs=("install", "test", "build"),
    ),
    Layout(
        "a workspace of a later Yarn",
        {
            "package.json": """
                {"name": "x", "private": true, "packageManager": "yarn@4.0.0",
                 "workspaces": {"packages": ["packages/*"]}}
                """,
            "yarn.lock": "",
            "packages/web/package.json": _WEB,
            "packages/api/package.json": _API,
        },
        {
            "test": "package.json: yarn workspaces foreach --all run test",
            "build": "package.json: yarn workspaces foreach --all run build",
            "install": "package.json: yarn install",
        },
    ),
    Layout(
        "Bun",
        {
            "package.json": """
                {"name": "x", "private": true, "workspaces": ["packages/*"]}
                """,
            "bun.lock": '{"lockfileVersion": 1, "workspaces": {"": {"name": "x"}}}',
            "packages/web/package.json": _WEB,
        },
        {
            "test": "package.json: bun run --filter '*' test",
            "install": "package.json: bun install",
        },
        needs=("bun",),
        runs=("install", "test"),
    ),
    Layout(
        "Bun, with tests that are not configured",
        {
            "package.json": """
                {"name": "x", "module": "src/sum.ts", "type": "module"}
                """,
            "bun.lock": '{"lockfileVersion": 1, "workspaces": {"": {"name": "x"}}}',
            "src/sum.ts": """
                export const sum = (a: number, b: number) => a + b;
                """,
            "src/sum.test.ts": """
                import { expect, test } from "bun:test";
                import { sum } from "./sum";
                test("sum", () => expect(sum(1, 2)).toBe(3));
                """,
        },
        {
            "test": "src/sum.test.ts: bun test",
            "install": "package.json: bun install",
        },
        needs=("bun",),
        runs=("install", "test"),
    ),
    Layout(
        "Turborepo",
        {
            "package.json": """
                {"name": "x", "private": true, "packageManager": "npm@10.0.0",
                 "workspaces": ["apps/*"], "devDependencies": {"turbo": "2"}}
                """,
            "turbo.json": """
                {"tasks": {"test": {}, "dev": {"cache": false}}}
                """,
            "apps/web/package.json": _WEB,
        },
        {
            "test": "turbo.json: npx turbo run test\n"
            "package.json: npm run test --workspaces --if-present",
            "run": "turbo.json: npx turbo run dev",
            "start": "turbo.json: npx turbo run dev",
            "install": "package.json: npm install",
        },
        needs=("npm",),
        runs=("install", "test"),
    ),
    Layout(
        "Nx",
        {
            "package.json": """
                {"name": "x", "private": true, "devDependencies": {"nx": "*"}}
                """,
            "nx.json": "{}",
            "apps/web/project.json": """
                {"name": "web", "targets": {"build": {"command": "node --version"}}}
                """,
        },
        {
            "build": "nx.json: npx nx run-many -t build",
            "install": "package.json: npm install",
        },
        needs=("npm",),
    ),
    Layout(
        "Deno",
        {
            "deno.json": '{"tasks": {"dev": "deno run main.ts"}}',
            "main.ts": "console.log('hello');\n",
            "main_test.ts": "Deno.test('adds', () => {});\n",
        },
        {
            "test": "deno.json: deno test",
            "run": "deno.json: deno run main.ts",
            "start": "deno.json: deno task dev",
            "lint": "deno.json: deno lint",
            "format": "deno.json: deno fmt",
            "install": "deno.json: deno install",
        },
        needs=("deno",),
        runs=("install", "test", "run", "start", "lint", "format"),
    ),
    Layout(
        "a front end and a back end in folders of their own",
        {
            "compose.yaml": "services:\n  web:\n    build: frontend\n",
            "frontend/package.json": """
                {"name": "web", "scripts": {"test": "node --version", "dev": "node --version"}}
                """,
            "backend/go.mod": "module api\n\ngo 1.19\n",
            "backend/main.go": "package main\n\nfunc main() {}\n",
            "docs/package.json": '{"scripts": {"lint": "false"}}',
        },
        {
            "test": "backend/go.mod: (cd backend && go test ./...)\n"
            "frontend/package.json: (cd frontend && npm test)",
            "build": "compose.yaml: docker compose build",
            "run": "backend/main.go: (cd backend && go run .)",
            "start": "compose.yaml: docker compose up",
            "lint": "backend/go.mod: (cd backend && go vet ./...)",
            "format": "backend/go.mod: (cd backend && go fmt ./...)",
            "install": "backend/go.mod: (cd backend && go mod download)\n"
            "frontend/package.json: (cd frontend && npm install)",
        },
        needs=("npm", "go"),
        runs=("install", "test", "lint", "format", "run"),
    ),
)
