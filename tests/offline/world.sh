# The inside of a scratch world: reads steps from its input, one a line, and tells each one's end.
#
# It is started in a process, network and mount namespace of its own (world.py), so that a command
# that kills, listens or deletes meets nothing of the machine but what the world made.
set -u
ip link set lo up
# What lies outside of the world is only read.
/bin/mount --bind "$WORLD" "$WORLD"
/bin/mount -o remount,bind,ro / 2>/dev/null
/bin/mount -t tmpfs tmpfs /run 2>/dev/null
cd "$WORLD/work" || exit 1

step() {
    case "$1" in
    world) # the entry's own preparations
        (set -eu; . "$HELPERS"; . "$WORLD/world") >"$WORLD/world.log" 2>&1 ;;
    run) # one command, as a user's shell would run it
        ([ ! -f "$WORLD/env" ] || . "$WORLD/env"
         exec timeout -k 1 "$2" bash -c "$(cat "$WORLD/command")") >"$OUT" 2>"$ERR" ;;
    check)
        (set -eu; . "$HELPERS"; STATUS=$2; . "$WORLD/check") >"$WORLD/check.log" 2>&1 ;;
    esac
}

while read -r name argument; do
    step "$name" "${argument:-}" </dev/null
    status=$?
    [ ! -d "$WORLD/tools" ] || PATH=$WORLD/bin:$WORLD/tools
    echo "$name $status"
done
