# pjdfstest over NFS, on a volume without snapshots and on one that gets a snapshot before each part of the suite.
#
# Parameters (environment): HOST, PORT; VERSIONS of NFS; PARTS of the suite, its modules. The volumes are /plain and
# /work. At `PLIMSOLL-GUEST-MARK create` the host makes the next snapshot of /work: s1, s2 and so on.
# Every check prints `ok NAME` or `FAIL NAME why`; the exit status is 1 if any failed.

. /job/checks
# The script's own output, for marks from within checks.
exec 3>&1
mnt=/tmp/volume
mkdir -p $mnt
echo 0 >/tmp/number
cat >/tmp/config.toml <<'END'
[features]
posix_fallocate = {}
utime_now = {}
utimensat = {}
[settings]
# Longer than the clock of the files takes to move on.
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["bin", "bin"]]
END

attach() { # volume, version
    # The suite compares times at once, and waits for the names of snapshots.
    local options="timeo=100,retrans=1,hard,proto=tcp,actimeo=0,lookupcache=none,vers=$2,port=$PORT"
    [ "$2" != 3 ] || options="$options,nolock,mountproto=tcp,mountvers=3,mountport=$PORT"
    timeout 60 mount -t nfs -o "$options" "$HOST:/$1" $mnt
}

next_snapshot() {
    local number=$(($(cat /tmp/number) + 1))
    echo $number >/tmp/number
    mark create >&3
    for _ in $(seq 200); do
        ! ls $mnt/.snapshot | grep -qx "s$number" || return 0
        sleep 0.1
    done
    echo "no snapshot s$number in $(ls $mnt/.snapshot)"
    return 1
}

# Leaves a line for each test: its name, and ok, FAILED or skipped.
suite() { # volume, version
    attach "$1" "$2"
    chmod 755 $mnt
    for part in $PARTS; do
        [ "$1" = plain ] || next_snapshot
        mkdir -p "$mnt/$part"
        (cd / && /job/pjdfstest -c /tmp/config.toml -p "$mnt/$part" "tests::$part::") >/tmp/out 2>&1 || true
        grep -q "^Summary: " /tmp/out || { tail -n 5 /tmp/out; return 1; }
        awk '$NF ~ /^(ok|FAILED|skipped)$/ && NF == 2 { print $1, $2 }' /tmp/out
        rm -rf "${mnt:?}/$part"
    done | sort >"/tmp/$1.$2"
    umount -R $mnt
}

same_results() { # version
    diff "/tmp/plain.$1" "/tmp/work.$1"
    # A suite that does not run would be the same twice.
    local passed
    passed=$(grep -c ' ok$' "/tmp/plain.$1")
    say "$1: $passed of $(wc -l <"/tmp/plain.$1") pass" >&3
    [ "$passed" -ge 300 ] || { grep -v ' ok$' "/tmp/plain.$1"; return 1; }
}

for version in $VERSIONS; do
    check "$version.without_snapshots" suite plain "$version"
    check "$version.with_snapshots" suite work "$version"
    check "$version.same_results" same_results "$version"
done

[ "$failures" -eq 0 ]
