/** The colors of code: a script of its own, loaded with the first block of code that has some. */
import highlighter from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import lua from "highlight.js/lib/languages/lua";
import makefile from "highlight.js/lib/languages/makefile";
import markdown from "highlight.js/lib/languages/markdown";
import nginx from "highlight.js/lib/languages/nginx";
import perl from "highlight.js/lib/languages/perl";
import php from "highlight.js/lib/languages/php";
import powershell from "highlight.js/lib/languages/powershell";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import shell from "highlight.js/lib/languages/shell";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const languages = {
  ...{ bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, lua },
  ...{ makefile, markdown, nginx, perl, php, powershell, python, ruby, rust, shell, sql },
  ...{ typescript, xml, yaml },
};
for (const [name, language] of Object.entries(languages)) {
  highlighter.registerLanguage(name, language);
}
highlighter.registerAliases(["fish", "ksh"], { languageName: "bash" });
highlighter.registerAliases(["shell-session"], { languageName: "shell" });

/** Return code as HTML, in which all of it is escaped; null for a language that is not known. */
function highlight(code: string, language: string): string | null {
  if (!highlighter.getLanguage(language)) return null;
  return highlighter.highlight(code, { language, ignoreIllegals: true }).value;
}

export type Highlight = typeof highlight;

Object.assign(globalThis, { highlight });
