"""The one command that a request for files becomes."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Final

from aish_lsp.offline.choosing import quoted
from aish_lsp.offline.compose.grammar import Misfit
from aish_lsp.offline.compose.predicates import Things
from aish_lsp.offline.words import data

#: What is wanted that leaves some of the things out.
LIMITED: Final = ("largest", "smallest", "newest", "oldest")
_KINDS: Final = {
    "f": ("file", "files"),
    "d": ("folder", "folders"),
    "l": ("symbolic link", "symbolic links"),
    "": ("file or folder", "files and folders"),
}

#: What stands before the things in a sentence; what is no adjective follows "those that".
_BEFORE: Final = re.compile(r"only those (empty|hidden|executable)")
_VERB: Final = re.compile(
    r"(?<=only those )(?=(?:contain|have|has|had|do|does|mention|match|belong)(?:n't)?\b)"
)


def explained(things: Things) -> str:
    """Return what the command does, in a sentence."""
    does = things.act or things.want
    said = data("effects")["does"].get(does) or ("For each of {}" if things.act else "Shows {}")
    if things.content.startswith("-H"):
        text = shlex.split(things.content)[-1]
        does = "Counts" if things.content.startswith("-Hc") else "Shows"
        said = f"{does} the lines with `{text}` in {{}}"
    told = [
        re.sub(r"(?<=only those )(?:(?:are|is|were|was|been) )+", "", one) for one in things.said
    ]
    adjectives = [found[1] for one in told if (found := _BEFORE.fullmatch(one))]
    told = [one.replace("only those or ", "or ", 1) for one in told]
    others = [_VERB.sub("that ", one) for one in told if not _BEFORE.fullmatch(one)]
    if things.act.startswith("-exec"):  # What is done was said in the user's words.
        said, others = f"{said}: {others[-1]}", others[:-1]
    is_one = things.want in LIMITED and things.number == "1"
    some = [things.number] * (not is_one) + [things.want] if things.want in LIMITED else []
    which = " ".join(["the", *some, *adjectives, _KINDS[things.kind][not is_one]])
    roots = " and ".join("this folder" if root == "." else root for root in things.roots or ["."])
    below = f" and {'their' if len(things.roots) > 1 else 'its'} subfolders"
    place = roots + below * (things.depth != "1")
    unseen = [root for root in things.roots if not things.target.world.exists(root.strip("'"))]
    there = "".join(f" There is no {root} here." for root in unseen if root[0] not in "/~.'")
    filled = said.replace("{to}", things.to).replace("{}", f"{which}{_called(things)} in {place}")
    return f"{', '.join([filled, *others])}.{there}"


def _called(things: Things) -> str:
    """Return how the names of things are limited."""
    called = ""
    for test in things.tests:
        names = [name for one, name in pairwise(shlex.split(test)) if one in ("-name", "-iname")]
        if names and names != [".*"]:
            no = "not " * test.startswith("-not")
            called += (
                f"{' and' * bool(called)} {no}named {' or '.join(f'`{one}`' for one in names)}"
            )
    return called


_SIZE: Final = re.compile(r"-size ([+-])(\d+)[ckMG]|-not -size (-)(\d+)c")


def folders_by_size(things: Things) -> str:
    """Return the command if folders are meant by their size, that of all that is in them.

    Raises:
        Misfit: something else is wanted of them, too.
    """
    sized = [test for test in things.tests if "-size" in test]
    by_du: dict[str, str] = data("effects")["folders"]
    if things.kind != "d" or not (sized or data("effects")["wants"][things.want][0] == "size"):
        return ""
    if (
        things.want not in by_du
        or (things.want == "count" and not sized)
        or len(sized) > 1
        or len(sized) < len(things.tests)
        or any((things.act, things.content, things.sort, things.save, things.lists, things.end))
        or any((things.least, things.case, things.follow))
    ):
        raise Misfit("how large a folder is depends on what is in it")
    depth = things.depth or ("1" if not sized and things.below != "all" else "")
    words = ["du", "-h", "-x" * bool(things.device), f"-d {depth}" * bool(depth)]
    for test in sized:
        found = _SIZE.fullmatch(test)
        if found is None:
            raise Misfit(test)
        sign = "-" * (found[1] == "-")
        words.append(f"-t {sign}{test.removeprefix('-not ').split()[1].lstrip('+-').rstrip('c')}")
    words += things.roots or ["."]
    return " ".join(filter(None, words)) + by_du[things.want].format(number=things.number)


def rendered(things: Things) -> str:
    """Return the command.

    Raises:
        Misfit: its parts do not go together.
    """
    if things.act and (
        things.sort or things.save or things.end or things.want not in ("", *LIMITED)
    ):
        raise Misfit("something is to be shown, and something done")
    end = f" | {things.end}" if things.end else ""
    return _shown(things) + end + (f" > {things.save}" if things.save else "")


def _shown(things: Things) -> str:
    find = _find(things) + _listed(things)
    if things.content:
        return _with_content(find, things)
    if things.act and not things.want:
        return _acting(find, things)
    known = data("effects")
    argument: str
    pipe: str
    argument, pipe = known["wants"][things.want]
    if argument in known["numbered"]:
        argument = known["numbered"][argument][not things.target.gnu]
    elif "number" in argument:
        argument = argument.format(number=things.number)
    pipe = pipe.replace("{number}", things.number)
    if things.act:
        return _acting_on_some(find, argument, pipe, things)
    if things.lists == "numbers":
        pipe = pipe.replace(" | cut -d ' ' -f 2-", "")
    if things.sort in known["per"]:
        if things.want != "count":
            raise Misfit("only counted by groups")
        pipe = known["per"][things.sort]
    elif things.sort:
        pipe = f"{pipe} | sort"
    return f"{find} {argument}".strip() + pipe


def _listed(things: Things) -> str:
    """Return the argument of find for what is printed of each thing, if not just its path."""
    if things.lists == "saved" and not things.save:
        raise Misfit("where to is not said")
    plain = things.lists in ("", "names", "saved", "numbers")
    if (things.act and things.lists == "numbers") or (
        not plain and (things.want or things.content or (things.act and things.lists != "null"))
    ):
        raise Misfit("two things to be shown")
    if things.lists == "names" and things.act:
        if things.content:
            raise Misfit("names of what is not yet tested")
        return " -print"
    if things.act or plain:
        return ""
    return " -print0" if things.lists == "null" else f" -printf '{things.lists}\\n'"


def _find(things: Things) -> str:
    if things.depth and things.below == "all":
        raise Misfit("deep and not deep")
    words = ["find -L" if things.follow else "find", *(things.roots or ["."])]
    losing = things.act in ("delete", "copy", "move", "archive", "extension", "prefix")
    counted = things.want == "count" and things.kind == "d" and not things.sort
    least = things.least or ("1" if counted or (losing and things.kind != "f") else "")
    if things.act == "delete" and things.kind in ("d", "") and "-not" in "".join(things.tests):
        # What is spared may lie in a folder that would go.
        things.depth = things.depth or "1"
    words += [f"-mindepth {least}"] if least else []
    words += [f"-maxdepth {things.depth}"] if things.depth else []
    words += ["-xdev"] if things.device else []
    words += [f"-type {things.kind}"] if things.kind else []
    if things.act and things.target.world.in_git and things.roots in ([], ["."]):
        things.tests.append("-not -path '*/.git/*'")
    tests = " ".join(things.tests)
    wanted = [one for one in things.tests if one.startswith("-name")]
    wanted += [f"-name {folder}" for root in things.roots for folder in root.split("/") if folder]
    if any(f"-not {one}" in things.tests for one in wanted):
        raise Misfit("what is asked for is left out")
    if things.case:
        if not re.search("-(name|regex)", tests) and not things.content:
            raise Misfit("no name to ignore the case of")
        tests = tests.replace("-name ", "-iname ").replace("-regex ", "-iregex ")
    return " ".join(filter(None, [*words, tests]))


def _with_content(find: str, things: Things) -> str:
    """Return a command for the files with a text in them, or for the lines with it."""
    if things.kind not in ("", "f") or things.want in ("largest", "smallest", "newest", "oldest"):
        raise Misfit("only files have a content")
    if not things.kind:
        find = find.replace("find ", "find ", 1) + " -type f"
    if things.case:
        option, _, text = things.content.partition(" ")
        things.content = f"{option}i {text}"
    if things.act:
        if things.content.startswith("-H") or not things.act.startswith(("-exec", "delete")):
            raise Misfit("what to do with lines")
        quiet = "-q" + things.content[2:]
        test = rf"-exec grep {quiet} {{}} \;"
        if things.content.startswith("-L"):
            test = rf"\! {test}"
        return _acting(f"{find} {test}", things)
    return _found(find, things)


def _found(find: str, things: Things) -> str:
    """Return what shows or counts the files with a text in them, or the lines with it."""
    if things.want not in ("", "count"):
        raise Misfit("more of files with a content")
    sort = " | sort" if things.sort == "sort" else ""
    if things.sort in (per := data("effects")["per"]):
        if things.want != "count" or not things.content.startswith("-l"):
            raise Misfit("only counted by groups")
        return f"{find} -exec grep {things.content} {{}} +{per[things.sort]}"
    if things.want == "count" and things.content.startswith("-H"):
        return f"{find} -exec grep -h{things.content[2:]} {{}} + | wc -l"
    pipe = f"{' | wc -l' * bool(things.want)}{sort}"
    roots = " ".join(things.roots or ["."])
    if find == f"find {roots} -type f":
        return f"grep -r{things.content[1:]} {roots}{pipe}"
    return f"{find} -exec grep {things.content} {{}} +{pipe}"


def _acting(find: str, things: Things) -> str:
    if things.act == "delete":
        if things.kind in ("f", "l") or "-empty" in things.tests:
            return f"{find} -delete"
        return f"{find} -prune -exec rm -r {{}} +"
    if things.act == "archive":
        if not things.to:
            raise Misfit("no archive")
        if things.to.endswith((".zip", ".zip'")):
            return f"{find} -print | zip {things.to} -@"
        # What is in a folder is found itself, and would be packed twice.
        alone = "" if things.kind == "f" else " --no-recursion"
        flag = "z" if things.to.rstrip("'").endswith(("gz", "tgz")) else "a"
        return f"{find} -print0 | tar -c{flag}f {things.to}{alone} --null -T -"
    if things.act.startswith("-exec"):
        return f"{find} {things.act}"
    if not things.to:
        raise Misfit("no destination")
    if things.act == "copy" and things.kind != "f" and things.depth != "1" and things.tests:
        raise Misfit("a folder that is copied takes along what is in it")
    if things.act in ("copy", "move"):
        # With the slash, several files do not overwrite one another if there is no such folder.
        things.to = f"{things.to.rstrip('/')}/"
        find += _without_destination(things)
    recursive = " -r" if things.kind != "f" else ""
    return f"{find} {data('effects')['acts'][things.act].format(to=things.to, r=recursive)}"


def _acting_on_some(find: str, argument: str, pipe: str, things: Things) -> str:
    """Return what does something with the largest or the newest, whatever their names contain."""
    acts = {"delete": "rm", "copy": "cp -t {to}", "move": "mv -t {to}"}
    if things.act not in acts or not things.target.gnu or things.kind != "f":
        raise Misfit("what to do with some of them")
    if things.act != "delete" and not things.to:
        raise Misfit("no destination")
    each = pipe
    for program in ("sort -", "head -", "cut -"):
        each = each.replace(program, f"{program}z")
    does = acts[things.act].format(to=things.to)
    return f"{find} {argument}".replace(r"\n", r"\0") + f"{each} | xargs -0 {does}"


def _without_destination(things: Things) -> str:
    """Return the test that leaves out what is already at the destination, if that is searched."""
    to = shlex.split(things.to)[0]
    for root in (shlex.split(root)[0].rstrip("/") for root in things.roots or ["."]):
        if root == "." and to[0] not in "/~":
            return f" -not -path {quoted('./' + to.removeprefix('./') + '*')}"
        if to.startswith(f"{root}/"):
            return f" -not -path {quoted(to + '*')}"
    return ""
