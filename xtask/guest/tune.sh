# Tuning a client, on mounts of the kernel's: what `client check` says of them, whether its commands set what it recommends,
# and what the scenario `client-tuning` finds over them.
#
# Parameters (environment): HOST, OTHER: two addresses of the server, since mounts of one address share its connections;
# PORT; CONNECTIONS of the mounts at OTHER; CASES to measure; HOW to measure, options of `bench run`; /job/tune.toml: loads of fio's. Everything is written
# where the host finds it, into the volume: check-NAME.json, tuning.CASE.json and fio.CASE.json. At `PLIMSOLL-GUEST-MARK clients`
# the host looks who is connected. Every check prints `ok NAME` or `FAIL NAME why`.

options="port=$PORT,mountport=$PORT,hard,nolock,proto=tcp,mountproto=tcp,vers=3,mountvers=3"
attributes="nocto,actimeo=600"
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

mounted() { # NAME ADDRESS OPTIONS
    mkdir -p "/mnt/$1"
    mount -t nfs -o "$options$3" "$2:/tuning" "/mnt/$1"
}

mounts() {
    mounted baseline "$HOST" ""
    mounted nocto "$HOST" ",$attributes"
    mounted nconnect "$OTHER" ",nconnect=$CONNECTIONS"
    # It asks for more connections than the first mount of its address has.
    mounted late "$HOST" ",nconnect=$CONNECTIONS,rsize=65536,wsize=65536,soft"
}

tuned_mounts() {
    umount /mnt/baseline /mnt/nocto /mnt/nconnect
    mounted sysctl "$HOST" ""
    mounted all "$OTHER" ",$attributes,nconnect=$CONNECTIONS,rsize=262144,wsize=262144"
}

# What is recommended for EDA at Azure NetApp Files, which is checked for: the status is WANTED.
advice() { # NAME MOUNT WANTED
    local status=0
    /job/plimsoll client check "/mnt/$2" --provider anf --eda || status=$?
    [ $status -eq "$3" ]
    status=0
    /job/plimsoll client check "/mnt/$2" --provider anf --eda --json >"/mnt/$2/check-$1.json" || status=$?
    [ $status -eq "$3" ]
}

# The commands that the check tells, as they stand there; those of the mount are for the mount.
follow() { # MOUNT
    /job/plimsoll client check "/mnt/$1" --provider anf --eda >/tmp/advice || [ $? -eq 3 ]
    sed -n 's/^ *\(sysctl -w .*\|echo [0-9]* > .*\)$/\1/p' /tmp/advice >/tmp/commands
    cat /tmp/commands
    bash -e /tmp/commands
}

measure() { # SCENARIO NAME CASE…, those of them that are among CASES; of a part of the SERIES, if it is set
    local scenario=$1 name=$2 case cases=() first=
    shift 2
    for case in "$@"; do
        case " $CASES " in *" $case "*) ;; *) continue ;; esac
        first=${first:-$case}
        cases+=(--case "$case=/mnt/$case")
    done
    # shellcheck disable=SC2086 # several options
    /job/plimsoll bench run "$scenario" "${cases[@]}" --output "/mnt/$first/$name.json" ${SERIES:+--series "$SERIES"} $HOW
}

check mounts mounts
for mount in baseline nocto nconnect late; do
    check "advice-$mount" advice "$mount" "$mount" 3
done
umount /mnt/late
SERIES=Opening check openings measure client-tuning tuning baseline nocto nconnect
check fio measure /job/tune.toml fio baseline nocto nconnect
check tuned-mounts tuned_mounts
check follow follow all
check advice-tuned advice tuned all 0
SERIES=Opening check tuned-openings measure client-tuning tuning sysctl all
check tuned-fio measure /job/tune.toml fio sysctl all
# Linux makes the connections of a mount as they are used, so the measured mounts have all of theirs.
mark clients
# The host counts the connections before they end.
sleep 3
umount /mnt/sysctl /mnt/all
exit $((failures > 0))
