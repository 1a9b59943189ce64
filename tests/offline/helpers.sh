# What the scripts of the corpus may use; README.md tells of each.

# --- making a world ---

# repo [FOLDER]: an empty repository on the branch main.
repo() { git init -q -b main "${1:-.}"; }

# commit MESSAGE: commit all that there is, one second later than the last time.
commit() {
    seconds=$(( $(cat "$WORLD/clock" 2>/dev/null || echo 1760000000) + 1 ))
    echo "$seconds" >"$WORLD/clock"
    git add -A
    GIT_COMMITTER_DATE="$seconds +0000" GIT_AUTHOR_DATE="$seconds +0000" \
        git commit -q --allow-empty -m "$1"
}

# put FILE [TEXT...]: a file with these lines, its folders with it.
put() {
    mkdir -p "$(dirname "$1")"
    file=$1
    shift
    printf '%s\n' "$@" >"$file"
}

# big FILE SIZE: a file of that size, as in `big video.mp4 20M`.
big() { mkdir -p "$(dirname "$1")"; truncate -s "$2" "$1"; }

# old FILE AGE: make it as old as in `old a.log "10 days"`.
old() { touch -d "$2 ago" "$1"; }

# listen PORT: a server that listens there, its process id in $WORLD/listen.PORT.
listen() {
    python3 -m http.server --bind 127.0.0.1 "$1" >/dev/null 2>&1 &
    echo $! >"$WORLD/listen.$1"
    for _ in $(seq 200); do
        ! (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
        sleep 0.02
    done
    return 1
}

# process NAME: a process of that name that does nothing, its id in $WORLD/process.NAME.
process() {
    mkdir -p "$WORLD/running"
    cp "$(command -v sleep)" "$WORLD/running/$1"
    "$WORLD/running/$1" 1000 &
    echo $! >"$WORLD/process.$1"
    for _ in $(seq 100); do
        [ "$(cat "/proc/$!/comm")" = "${1:0:15}" ] && return 0
        sleep 0.01
    done
}

# fake NAME [SCRIPT]: a tool of that name on the PATH, which notes how it is called (`called`) and
# then does what SCRIPT says.
fake() {
    {
        echo '#!/bin/bash'
        echo '{ printf "%s" "${0##*/}"; [ $# -eq 0 ] || printf " %q" "$@"; echo; } >>"$LOG"'
        echo "${2:-}"
    } >"$WORLD/bin/$1"
    chmod +x "$WORLD/bin/$1"
}

# without NAME...: as if these tools were not installed.
without() {
    [ -d "$WORLD/tools" ] || cp -R "$TOOLS" "$WORLD/tools"
    for tool; do rm -f "$WORLD/tools/$tool"; done
}

# setenv NAME VALUE: a variable of the environment in which the command runs.
setenv() { printf 'export %s=%q\n' "$1" "$2" >>"$WORLD/env"; }

# wheel NAME [VERSION]: a package that pip can install, from an index that has nothing else.
wheel() {
    mkdir -p "$WORLD/wheels"
    python3 - "$1" "${2:-1.0}" "$WORLD/wheels" <<'END'
import sys, zipfile
name, version, folder = sys.argv[1:]
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    wheel.writestr(f"{name}.py", f"version = {version!r}\n")
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
END
    setenv PIP_NO_INDEX 1
    setenv PIP_FIND_LINKS "$WORLD/wheels"
}

# venv: a virtual environment in .venv, made fast: pip is the system's.
venv() { python3 -m venv --without-pip --system-site-packages .venv; }

# --- checking what became of it ---

# out REGEX: whether a line of what the command printed fits (extended); out_err: of its errors.
out() { grep -Eq -- "$1" "$OUT" || { echo "not printed: $1"; cat "$OUT"; return 1; }; }
out_err() { grep -Eq -- "$1" "$ERR"; }

# out_is LINE...: whether it printed just these lines; out_has LINE...: these, in whatever order.
out_is() { [ "$(cat "$OUT")" = "$(printf '%s\n' "$@")" ] || { echo "printed:"; cat "$OUT"; return 1; }; }
out_has() { for line; do grep -Fq -- "$line" "$OUT" || { echo "not printed: $line"; cat "$OUT"; return 1; }; done; }

# out_lacks TEXT...: whether none of these is in what it printed.
out_lacks() { for text; do ! grep -Fq -- "$text" "$OUT" || { echo "printed: $text"; return 1; }; done; }

# called REGEX: whether a fake tool was called so: `called '^docker ps -a$'`.
called() { grep -Eq -- "$1" "$LOG" || { echo "not called: $1; calls:"; cat "$LOG"; return 1; }; }

# is FILE TEXT: whether that is what is in it; there FILE..., gone FILE...: whether they are there.
is() { [ "$(cat "$1")" = "$2" ] || { echo "$1 holds: $(cat "$1")"; return 1; }; }
there() { for file; do [ -e "$file" ] || { echo "missing: $file"; ls -la; return 1; }; done; }
gone() { for file; do [ ! -e "$file" ] && [ ! -L "$file" ] || { echo "still there: $file"; return 1; }; done; }

# alive PID, ended PID: whether a process still runs (it is given a moment to end).
alive() { kill -0 "$1" 2>/dev/null && [ "$(awk '/^State/ {print $2}' "/proc/$1/status")" != Z ]; }
ended() { for _ in $(seq 100); do alive "$1" || return 0; sleep 0.02; done; return 1; }
