"""Projects in languages that are compiled, by their own tools and by build systems."""

from __future__ import annotations

from task_layouts import Layout

_MAIN_RS = 'fn main() {\n    println!("hello");\n}\n'
_LIB_RS = """
    pub fn one() -> u8 {
        1
    }

    #[test]
    fn it_is_one() {
        assert_eq!(one(), 1);
    }
    """
_CRATE = '[package]\nname = "{}"\nversion = "0.1.0"\nedition = "2021"\n'
_GO_TEST = 'package {0}\n\nimport "testing"\n\nfunc TestIt(t *testing.T) {{}}\n'
_MAIN_C = '#include <stdio.h>\n\nint main(void) {\n    puts("hello");\n    return 0;\n}\n'
_JAVA_TEST = "class AppTest {}\n"

COMPILED = (
    Layout(
        "a Rust program",
        {"Cargo.toml": _CRATE.format("greeter"), "src/main.rs": _MAIN_RS, "src/bin/notes.txt": ""},
        {
            "test": "Cargo.toml: cargo test",
            "build": "Cargo.toml: cargo build",
            "run": "Cargo.toml: cargo run",
            "start": "Cargo.toml: cargo run",
            "lint": "Cargo.toml: cargo clippy",
            "format": "Cargo.toml: cargo fmt",
            "install": "Cargo.toml: cargo fetch",
        },
        needs=("cargo",),
        runs=("install", "build", "test", "run", "lint", "format"),
    ),
    Layout(
        "a Rust crate with two programs",
        {
            "Cargo.toml": _CRATE.format("greeter"),
            "src/main.rs": _MAIN_RS,
            "src/bin/other.rs": _MAIN_RS,
        },
        {
            "test": "Cargo.toml: cargo test",
            "build": "Cargo.toml: cargo build",
            "run": "Cargo.toml: cargo run --bin greeter",
            "start": "Cargo.toml: cargo run --bin greeter",
            "lint": "Cargo.toml: cargo clippy",
            "format": "Cargo.toml: cargo fmt",
            "install": "Cargo.toml: cargo fetch",
        },
        needs=("cargo",),
        runs=("run",),
    ),
    Layout(
        "a Rust library with examples",
        {
            "Cargo.toml": _CRATE.format("one"),
            "src/lib.rs": _LIB_RS,
            "examples/show.rs": _MAIN_RS,
        },
        {
            "test": "Cargo.toml: cargo test",
            "build": "Cargo.toml: cargo build",
            "run": "examples/show.rs: cargo run --example show",
            "start": "examples/show.rs: cargo run --example show",
            "lint": "Cargo.toml: cargo clippy",
            "format": "Cargo.toml: cargo fmt",
            "install": "Cargo.toml: cargo fetch",
        },
        needs=("cargo",),
        runs=("test", "run"),
    ),
    Layout(
        "a Rust workspace",
        {
            "Cargo.toml": '[workspace]\nresolver = "2"\nmembers = ["crates/*", "xtask"]\n',
            "crates/core/Cargo.toml": _CRATE.format("greeter-core"),
            "crates/core/src/lib.rs": _LIB_RS,
            "crates/cli/Cargo.toml": _CRATE.format("greeter-cli"),
            "crates/cli/src/main.rs": _MAIN_RS,
            "xtask/Cargo.toml": _CRATE.format("xtask"),
            "xtask/src/main.rs": _MAIN_RS,
        },
        {
            "test": "Cargo.toml: cargo test --workspace",
            "build": "Cargo.toml: cargo build --workspace",
            "run": "crates/cli/Cargo.toml: cargo run -p greeter-cli\n"
            "xtask/Cargo.toml: cargo run -p xtask",
            "start": "crates/cli/Cargo.toml: cargo run -p greeter-cli\n"
            "xtask/Cargo.toml: cargo run -p xtask",
            "lint": "Cargo.toml: cargo clippy --workspace",
            "format": "Cargo.toml: cargo fmt --all",
            "install": "Cargo.toml: cargo fetch",
        },
        needs=("cargo",),
        runs=("install", "build", "test", "run", "lint", "format"),
    ),
    Layout(
        "a Go module with a command",
        {
            "go.mod": "module example.org/greeter\n\ngo 1.19\n",
            "greeter.go": "package greeter\n",
            "greeter_test.go": _GO_TEST.format("greeter"),
            "cmd/greet/greet.go": "package main\n\nfunc main() {}\n",
            "gen.go": "//go:build ignore\n\npackage main\n",
        },
        {
            "test": "go.mod: go test ./...",
            "build": "go.mod: go build ./...",
            "run": "cmd/greet/greet.go: go run ./cmd/greet",
            "start": "cmd/greet/greet.go: go run ./cmd/greet",
            "lint": "go.mod: go vet ./...",
            "format": "go.mod: go fmt ./...",
            "install": "go.mod: go mod download",
        },
        needs=("go",),
        runs=("install", "build", "test", "run", "lint", "format"),
    ),
    Layout(
        "a Go workspace",
        {
            "go.work": "go 1.19\n\nuse (\n\t./api // the server\n\t./lib\n)\n",
            "api/go.mod": "module example.org/api\n\ngo 1.19\n",
            "api/main.go": "package main\n\nfunc main() {}\n",
            "lib/go.mod": "module example.org/lib\n\ngo 1.19\n",
            "lib/lib.go": "package lib\n",
            "lib/lib_test.go": _GO_TEST.format("lib"),
        },
        {
            "test": "go.work: go test ./api/... ./lib/...",
            "build": "go.work: go build ./api/... ./lib/...",
            "run": "api/main.go: go run ./api",
            "start": "api/main.go: go run ./api",
            "lint": "go.work: go vet ./api/... ./lib/...",
            "format": "go.work: gofmt -w api lib",
            "install": "go.work: go mod download",
        },
        needs=("go",),
        runs=("install", "build", "test", "run", "lint", "format"),
    ),
    Layout(
        "CMake",
        {
            "CMakeLists.txt": """
                cmake_minimum_required(VERSION 3.20)
                project(greeter C)
                include(cmake/Tests.cmake)
                add_executable(${PROJECT_NAME} main.c)
                add_subdirectory(tests)
                # add_executable(old old.c)
                """,
            "cmake/Tests.cmake": "enable_testing()\n",
            "tests/CMakeLists.txt": """
                add_executable(greeter_test ../main.c)
                add_test(NAME runs COMMAND greeter_test)
                """,
            "main.c": _MAIN_C,
        },
        {
            "test": "CMakeLists.txt: cmake -S . -B build && cmake --build build"
            " && ctest --test-dir build",
            "build": "CMakeLists.txt: cmake -S . -B build && cmake --build build",
            "run": "CMakeLists.txt: cmake -S . -B build && cmake --build build && ./build/greeter",
            "start": "CMakeLists.txt: cmake -S . -B build && cmake --build build"
            " && ./build/greeter",
        },
        needs=("cmake", "cc"),
        runs=("build", "test", "run"),
    ),
    Layout(
        "CMake with presets",
        {
            "CMakeLists.txt": """
                cmake_minimum_required(VERSION 3.21)
                project(greeter C)
                enable_testing()
                add_library(greeter main.c)
                add_test(NAME runs COMMAND ${CMAKE_COMMAND} --version)
                """,
            "CMakePresets.json": """
                {"version": 3,
                 "configurePresets": [
                   {"name": "base", "hidden": true, "binaryDir": "${sourceDir}/out"},
                   {"name": "dev", "inherits": "base"}],
                 "buildPresets": [{"name": "dev", "configurePreset": "dev"}],
                 "testPresets": [{"name": "dev", "configurePreset": "dev"}]}
                """,
            "main.c": _MAIN_C,
        },
        {
            "test": "CMakePresets.json: cmake --preset dev && cmake --build --preset dev"
            " && ctest --preset dev\n"
            "CMakeLists.txt: cmake -S . -B build && cmake --build build && ctest --test-dir build",
            "build": "CMakePresets.json: cmake --preset dev && cmake --build --preset dev\n"
            "CMakeLists.txt: cmake -S . -B build && cmake --build build",
        },
        needs=("cmake", "cc"),
        runs=("build", "test"),
    ),
    Layout(
        "Meson",
        {
            "meson.build": """
                project('greeter', 'c')
                greeter = executable('greeter', 'main.c')
                test('runs', greeter)
                """,
            "main.c": _MAIN_C,
        },
        {
            "test": "meson.build: meson setup build && meson test -C build",
            "build": "meson.build: meson setup build && meson compile -C build",
            "run": "meson.build: meson setup build && meson compile -C build && ./build/greeter",
            "start": "meson.build: meson setup build && meson compile -C build && ./build/greeter",
        },
        needs=("meson", "ninja", "cc"),
        runs=("run",),
    ),
    Layout(
        "Meson, already configured",
        {
            "meson.build": "project('greeter', 'c')\ntest('runs', find_program('true'))\n",
            "build/build.ninja": "",
        },
        {
            "test": "meson.build: meson test -C build",
            "build": "meson.build: meson compile -C build",
        },
        needs=("meson", "ninja", "cc"),
        runs=("test", "build"),
        prepare="rm -r build && meson setup build",
    ),
    Layout(
        "a makefile that includes others",
        {
            "Makefile": """
                include mk/*.mk
                -include local.mk
                .PHONY: test deploy
                greeter: main.c
                \t$(CC) -o $@ $<
                test: greeter
                \t./greeter
                lint: CFLAGS = -Wall
                docs:
                \ttrue
                """,
            "mk/format.mk": "fmt:\n\t@echo formatted\n",
            "docs/index.md": "",
            "main.c": _MAIN_C,
        },
        {"test": "Makefile: make test", "format": "Makefile: make fmt"},
        needs=("make", "cc"),
        runs=("test", "format"),
    ),
    Layout(
        "a makefile whose first target is the program",
        {
            "Makefile": """
                PROGRAM := greeter
                $(PROGRAM): main.c
                \t$(CC) -o $@ $<
                check: $(PROGRAM)
                \t./$(PROGRAM)
                clean:
                \trm -f $(PROGRAM)
                """,
            "main.c": _MAIN_C,
        },
        {
            "test": "Makefile: make check",
            "build": "Makefile: make",
            "lint": "Makefile: make check",
        },
        needs=("make", "cc"),
        runs=("build", "test"),
    ),
    Layout(
        "Gradle with several projects and its wrapper",
        {
            "settings.gradle.kts": 'rootProject.name = "x"\ninclude("app", ":lib")\n',
            "app/build.gradle.kts": "plugins {\n    application\n}\n",
            "lib/build.gradle.kts": """
                plugins {
                    `java-library`
                    id("com.diffplug.spotless")
                }
                """,
            "gradlew": "#!/bin/sh\necho gradle $*\n",
        },
        {
            "test": "settings.gradle.kts: ./gradlew test",
            "build": "settings.gradle.kts: ./gradlew build",
            "run": "app/build.gradle.kts: ./gradlew run",
            "start": "app/build.gradle.kts: ./gradlew run",
            "lint": "settings.gradle.kts: ./gradlew check",
            "format": "lib/build.gradle.kts: ./gradlew spotlessApply",
            "install": "settings.gradle.kts: ./gradlew dependencies",
        },
        programs=("gradlew",),
    ),
    Layout(
        "Android",
        {
            "settings.gradle": "include ':app'\n",
            "build.gradle": """
                plugins {
                    id 'com.android.application' version '8.0' apply false
                }
                """,
            "app/build.gradle": """
                plugins {
                    id 'com.android.application'
                }
                android { defaultConfig { applicationId "org.example" } }
                """,
            "gradlew": "#!/bin/sh\n",
        },
        {
            "test": "build.gradle: ./gradlew test",
            "build": "build.gradle: ./gradlew build",
            "lint": "build.gradle: ./gradlew lint",
            "install": "build.gradle: ./gradlew dependencies",
        },
        programs=("gradlew",),
    ),
    Layout(
        "Maven with several modules",
        {
            "pom.xml": """
                <project>
                  <modules><module>api</module><module>core</module></modules>
                  <!-- <artifactId>spring-boot-maven-plugin</artifactId> -->
                </project>
                """,
            "api/pom.xml": "<project/>",
        },
        {
            "test": "pom.xml: mvn test",
            "build": "pom.xml: mvn package",
            "lint": "pom.xml: mvn verify",
            "install": "pom.xml: mvn install -DskipTests",
        },
    ),
    Layout(
        "Maven with Quarkus and its wrapper",
        {
            "pom.xml": "<project><artifactId>quarkus-maven-plugin</artifactId></project>",
            "mvnw": "",
        },
        {
            "test": "pom.xml: sh ./mvnw test",
            "build": "pom.xml: sh ./mvnw package",
            "run": "pom.xml: sh ./mvnw quarkus:dev",
            "start": "pom.xml: sh ./mvnw quarkus:dev",
            "lint": "pom.xml: sh ./mvnw verify",
            "install": "pom.xml: sh ./mvnw dependency:resolve",
        },
    ),
    Layout(
        "a .NET solution",
        {
            "Shop.sln": """
                Project("{FAE04EC0}") = "Web", "src\\Web\\Web.csproj", "{1}"
                Project("{FAE04EC0}") = "Core", "src\\Core\\Core.csproj", "{2}"
                """,
            "src/Web/Web.csproj": '<Project Sdk="Microsoft.NET.Sdk.Web"></Project>',
            "src/Core/Core.csproj": '<Project Sdk="Microsoft.NET.Sdk"></Project>',
        },
        {
            "test": "Shop.sln: dotnet test",
            "build": "Shop.sln: dotnet build",
            "run": "src/Web/Web.csproj: dotnet run --project src/Web",
            "start": "src/Web/Web.csproj: dotnet run --project src/Web",
            "format": "Shop.sln: dotnet format",
            "install": "Shop.sln: dotnet restore",
        },
    ),
    Layout(
        "Erlang",
        {
            "rebar.config": "{deps, []}.\n",
            "src/x.app.src": '{application, x, [{vsn, "1"}, {applications, [kernel, stdlib]}]}.\n',
            "src/x.erl": """
                -module(x).
                -include_lib("eunit/include/eunit.hrl").
                one_test() -> 1 = 1.
                """,
        },
        {
            "test": "rebar.config: rebar3 eunit",
            "build": "rebar.config: rebar3 compile",
            "run": "rebar.config: rebar3 shell",
            "start": "rebar.config: rebar3 shell",
            "install": "rebar.config: rebar3 get-deps",
        },
        needs=("rebar3",),
        runs=("install", "build"),
    ),
    Layout(
        "OCaml",
        {
            "dune-project": "(lang dune 2.9)\n",
            "bin/dune": "(executable (name main))\n",
            "bin/main.ml": "let () = print_endline {|hello|}\n",
        },
        {
            "test": "dune-project: dune test",
            "build": "dune-project: dune build",
            "format": "dune-project: dune fmt",
        },
        needs=("dune", "ocamlfind"),
        runs=("build", "test"),
    ),
)
