# The benchmark on real mounts: scenarios and one of the published command lines, by fio on the kernel's client.
#
# Parameters (environment): HOST, PORT; CONNECTIONS of the mounts; VOLUMES, each with a scenario /job/NAME.toml; HOW to
# run them, options of `bench run`; COMMAND, a line of fio's. Results are written where the host finds them, into the volumes: NAME.json in
# each, and fio.json and plain.json in the first. At `PLIMSOLL-GUEST-MARK clients` the host looks who is connected. Every
# check prints `ok NAME` or `FAIL NAME why`.

options="port=$PORT,mountport=$PORT,hard,nolock,proto=tcp,mountproto=tcp,vers=3,mountvers=3,nconnect=$CONNECTIONS"
failures=0

say() { echo "$(cut -d ' ' -f 1 /proc/uptime) $*"; }
mark() { echo "PLIMSOLL-GUEST-MARK $1"; }

check() { # NAME COMMAND…
    local name=$1 status
    shift
    (
        set -e
        "$@"
    ) >/tmp/check.out 2>&1
    status=$?
    sed 's/^/    /' /tmp/check.out
    if [ $status -eq 0 ]; then
        say "ok $name"
    else
        failures=$((failures + 1))
        say "FAIL $name status $status: $(tail -n 8 /tmp/check.out | tr '\n' '|')"
    fi
}

mounts() {
    local volume
    for volume in $VOLUMES; do
        mkdir -p "/mnt/$volume"
        mount -t nfs -o "$options" "$HOST:/$volume" "/mnt/$volume"
    done
}

scenario() { # VOLUME
    # shellcheck disable=SC2086 # several options
    /job/plimsoll bench run "/job/$1.toml" --target "/mnt/$1" --output "/mnt/$1/$1.json" $HOW
}

# The same command line by `bench fio` and by fio itself, on the same files.
command_line() { # DIRECTORY
    cd "$1"
    /job/plimsoll bench fio "$COMMAND" --path "$1" --json >/tmp/fio.json
    $COMMAND --output-format=json --output=/tmp/plain.json
    cp /tmp/fio.json /tmp/plain.json "$1"
}

check mounts mounts
for volume in $VOLUMES; do
    check "$volume" scenario "$volume"
done
mark clients
check command-line command_line "/mnt/${VOLUMES%% *}"
for volume in $VOLUMES; do
    umount "/mnt/$volume"
done
exit $((failures > 0))
