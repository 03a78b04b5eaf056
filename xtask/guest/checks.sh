# What scripts check with; they begin with `. /job/checks`. A script ends with `[ "$failures" -eq 0 ]`.

failures=0

say() { echo "$(cut -d ' ' -f 1 /proc/uptime) $*"; }

# check NAME COMMAND…: runs the command in a subshell under `set -e`.
check() {
    local name=$1
    shift
    (
        set -e
        "$@"
    ) >/tmp/check.out 2>&1
    local status=$?
    if [ $status -eq 0 ]; then
        say "ok $name"
    else
        failures=$((failures + 1))
        say "FAIL $name status $status: $(tail -n 8 /tmp/check.out | tr '\n' '|')"
    fi
}

# refused TEXT COMMAND…: the command must fail, and its message must hold TEXT.
refused() {
    local text=$1
    shift
    local message
    if message=$("$@" 2>&1); then
        echo "succeeded, expected '$text': $*"
        return 1
    fi
    case $message in
    *"$text"*) ;;
    *)
        echo "expected '$text', got '$message': $*"
        return 1
        ;;
    esac
}

same() { [ "$1" = "$2" ] || { echo "expected '$2', got '$1'"; return 1; }; }
absent() { ! stat "$1" >/dev/null 2>&1 || { echo "$1 exists"; return 1; }; }
drop_caches() { sync; echo 3 >/proc/sys/vm/drop_caches; }
mark() { echo "PLIMSOLL-GUEST-MARK $1"; }

operations() { awk -v name="$1:" '$1 == name { n += $2 } END { print n + 0 }' /proc/self/mountstats; }
