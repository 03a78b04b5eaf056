# Drives the Linux kernel's NFS client against a server on the host.
#
# Parameters (environment): HOST, PORT, MOUNT_PORT, EXPORT; OPTIONS, more mount options; VERSIONS of the protocol: 3, 4.0:N, 4.1:N
# and 4.2:N with N connections; OPERATIONS_OF, those of versions 4
# that get all file operations; BRIEF, not empty for less of what repeats. With version 3 the export has a directory `many` of 10,000 files named entry-00001 and so on, and
# the host kills and restarts the server at the lines `PLIMSOLL-GUEST-MARK kill` and `… stop`.
# Every check prints `ok NAME` or `FAIL NAME why`; the exit status is 1 if any failed.

. /job/checks
. /job/operations
options="timeo=50,retrans=2,hard,nolock,proto=tcp,mountproto=tcp,vers=3,mountvers=3${OPTIONS:+,$OPTIONS}"

attach() { # nconnect, transfer size
    mount -t nfs -o "$options,port=$PORT,mountport=$MOUNT_PORT,nconnect=$1,rsize=$2,wsize=$2" "$HOST:$EXPORT" "$mnt"
}
attach4() { # minor version, nconnect
    mount -t nfs -o "timeo=50,hard,proto=tcp,vers=4.$1,port=$PORT,nconnect=$2${OPTIONS:+,$OPTIONS}" "$HOST:$EXPORT" "$mnt"
}

# --- mounts -----------------------------------------------------------------------------------

mounted_as_asked() { # nconnect, size
    grep -q " $mnt nfs .*rsize=$2,wsize=$2," /proc/mounts
    if [ "$1" -gt 1 ]; then
        grep -q "nconnect=$1" /proc/mounts
    fi
    # One file, so large that every transfer size and every connection is used, in and out again.
    local file="$mnt/transfer-$1-$2"
    dd if="$oracle/random" of="$file" bs=1M conv=fsync status=none
    drop_caches
    cmp "$oracle/random" "$file"
    rm "$file"
}

connections_in_use() {
    local count
    count=$(ss -Htn state established "dport = :$PORT" | wc -l)
    [ "$count" -ge "$1" ] || { echo "$count connections"; return 1; }
}

missing_export() {
    if mount -t nfs -o "$options,port=$PORT,mountport=$MOUNT_PORT" "$HOST:$EXPORT/no-such-directory" "$mnt"; then
        detach
        echo "a directory that does not exist was mounted"
        return 1
    fi
}

# A server may refuse to mount below its export, but it may not pass the export's root off as the subdirectory.
subdirectory() {
    attach 1 65536
    mkdir -p "$mnt/below/deeper"
    detach
    if mount -t nfs -o "$options,port=$PORT,mountport=$MOUNT_PORT" "$HOST:$EXPORT/below" "$mnt"; then
        local names
        names=$(ls "$mnt")
        detach
        same "$names" deeper
    fi
    attach 1 65536
    rm -r "$mnt/below"
    detach
}

mounts() {
    dd if=/dev/urandom of="$oracle/random" bs=1M count=6 status=none
    local mount connections size mounts="1:4096 1:131072 16:32768 16:1048576"
    [ -n "$BRIEF" ] || mounts="$mounts 1:32768 1:1048576 16:4096 16:131072"
    for mount in $mounts; do
        connections=${mount%:*} size=${mount#*:}
        check "mount.nconnect$connections.size$size" attach "$connections" "$size"
        require_mount
        check "transfer.nconnect$connections.size$size" mounted_as_asked "$connections" "$size"
        [ "$connections" -eq 1 ] || check "connections.nconnect$connections.size$size" connections_in_use 16
        check "umount.nconnect$connections.size$size" detach
    done
    check mount.missing-export missing_export
    check mount.subdirectory subdirectory
}

# --- a server that is killed and comes back ---------------------------------------------------

restart_stream() { # one file written in pieces, each made stable
    : >"$mnt/work/stream"
    local i
    for i in $(seq 0 47); do
        dd if="$oracle/random" of="$mnt/work/stream" bs=128k skip=$i seek=$i count=1 conv=notrunc,fsync status=none
        sleep 0.25
    done
}
restart_buffered() { # dirty pages in the client's cache over the restart: the write verifier saves them
    local i
    for i in 1 2 3 4 5 6; do
        dd if="$oracle/random" of="$mnt/work/buffered-$i" bs=64k status=none
        sleep 2
    done
    sync -f "$mnt/work"
}
restart_direct() {
    fio --name=across --directory="$mnt/work" --size=20m --rw=randwrite --bs=8k --direct=1 --ioengine=libaio \
        --iodepth=8 --rate_iops=180 --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none
}
restart_names() { # exclusive creates must survive a retransmission: none may fail
    mkdir "$mnt/work/names"
    perl -MFcntl -e 'my $end = time + 14; my $n = 0;
        while (time < $end) {
            sysopen(F, sprintf("%s/%06d", $ARGV[0], $n++), O_WRONLY|O_CREAT|O_EXCL, 0600) or die "$n: $!";
            close(F) or die "$n: $!";
            select(undef, undef, undef, 0.01);
        }
        print "$n\n"' "$mnt/work/names" >/tmp/names.count
}
restart_check_names() { same "$(ls -U "$mnt/work/names" | wc -l)" "$(cat /tmp/names.count)"; }
restart_check_buffered() {
    local i
    for i in 1 2 3 4 5 6; do cmp "$oracle/random" "$mnt/work/buffered-$i"; done
}

restart() {
    echo held >"$mnt/work/held"
    exec 8<"$mnt/work/held"
    start_writers stream buffered direct names
    sleep 4
    mark kill
    sleep 7
    mark stop
    check_writers stream buffered direct names
    # Through a second mount nothing comes from the page cache.
    drop_caches
    check restart.stream cmp "$oracle/random" "$mnt/work/stream"
    check restart.buffered restart_check_buffered
    check restart.names restart_check_names
    check restart.open-file same "$(cat <&8)" held
    exec 8<&-
}

# The pseudo-root of version 4: the export is a name in it, and mounts itself when it is entered.
pseudo_root() {
    mount -t nfs -o "hard,proto=tcp,vers=4.1,port=$PORT" "$HOST:/" "$mnt"
    same "$(ls "$mnt")" "${EXPORT#/}"
    refused "Read-only" touch "$mnt/file"
    stat "$mnt/${EXPORT#/}/." >/dev/null
    umount "$mnt/${EXPORT#/}" 2>/dev/null || true
    umount "$mnt"
}

# Another minor version is another client. Without being told of the lock, this one would ask for it after 1, 3 and 7 seconds.
lock_wakes() { # the other minor version
    local other=/tmp/other
    mkdir -p "$other"
    touch "$mnt/waited"
    mount -t nfs -o "timeo=50,hard,proto=tcp,vers=4.$1,port=$PORT${OPTIONS:+,$OPTIONS}" "$HOST:$EXPORT" "$other"
    rm -f /tmp/holds
    flock "$other/waited" -c 'touch /tmp/holds; sleep 4; cut -d" " -f1 /proc/uptime >/tmp/released' &
    while [ ! -e /tmp/holds ] && kill -0 $!; do sleep 0.1; done
    flock "$mnt/waited" -c 'cut -d" " -f1 /proc/uptime >/tmp/locked'
    wait $!
    umount "$other"
    rm "$mnt/waited"
    awk -v released="$(cat /tmp/released)" -v locked="$(cat /tmp/locked)" 'BEGIN {
        waited = locked - released
        print "locked after " waited " s"
        exit !(waited >= 0 && waited < 2)
    }'
}

# What is longer than 64 MiB is copied in one call that is answered before it is done.
long_copy() {
    local before
    before=$(operations COPY)
    yes 'a long copy' | head -c 41943040 >"$mnt/long"
    # copy_file_range, whatever cp thinks of it.
    perl -e 'open(F, "<", $ARGV[0]) or die; open(T, "+>", $ARGV[1]) or die;
        while (($n = syscall(326, fileno(F), 0, fileno(T), 0, 1 << 27, 0)) > 0) {}
        die "copy_file_range: $!" if $n < 0' "$mnt/long" "$mnt/copied"
    drop_caches
    cmp "$mnt/long" "$mnt/copied"
    same "$(($(operations COPY) - before))" 1
    rm "$mnt/long" "$mnt/copied"
}

# A file that this mount has read is delegated to it, until another client writes.
delegation4() {
    local file=$mnt/delegated other=/tmp/other
    local before
    before=$(operations DELEGRETURN)
    echo first >"$file"
    same "$(cat "$file")" first
    mkdir -p "$other"
    mount -t nfs -o "$options,port=$PORT,mountport=$MOUNT_PORT" "$HOST:$EXPORT" "$other"
    echo second >"$other/delegated"
    umount "$other"
    same "$(cat "$file")" second
    [ "$(operations DELEGRETURN)" -gt "$before" ] || { echo "nothing was delegated"; return 1; }
    rm "$file"
}

# ----------------------------------------------------------------------------------------------

one_connection() {
    check mount.one-connection attach 1 65536
    require_mount
    file_operations nconnect1
    data nconnect1
    check umount.one-connection detach
}

version3() {
    local many
    mounts
    [ -n "$BRIEF" ] || one_connection
    check mount.sixteen-connections attach 16 1048576
    require_mount
    file_operations nconnect16
    permissions
    data nconnect16
    more_data nconnect16
    check copy-tree copy_tree
    if [ -n "$BRIEF" ]; then many=200; else many=500; fi
    check many-files many_files $many
    check ten-thousand-files listed "$mnt/many" 10000
    restart
    rm -rf "$mnt/work"
    check umount.sixteen-connections detach
    check pseudo-root pseudo_root
}

version4() { # minor version, nconnect
    check "mount.4.$1" attach4 "$1" "$2"
    require_mount
    case " $OPERATIONS_OF " in
    *" 4.$1 "*) file_operations "v4.$1" ;;
    *) mkdir "$mnt/work" ;;
    esac
    data "v4.$1"
    check "locks.4.$1" locks4
    check "access-lists.4.$1" in_directory access-lists access_lists
    case $1 in
    1)
        permissions
        check lock-wakes.4.1 lock_wakes 2
        check delegation.4.1 delegation4
        ;;
    2)
        more_data v4.2
        check lock-wakes.4.2 lock_wakes 1
        check delegation.4.2 delegation4
        check long-copy.4.2 long_copy
        ;;
    esac
    rm -rf "$mnt/work"
    check "umount.4.$1" detach
}

modprobe nfs || exit 1
say "kernel client: $(uname -r), $HOST:$EXPORT port $PORT, mount port $MOUNT_PORT"
for version in $VERSIONS; do
    case $version in
    3) version3 ;;
    4.?:*)
        minor=${version#4.}
        version4 "${minor%:*}" "${version#*:}"
        ;;
    esac
done
say "kernel client: $failures failed"
[ "$failures" -eq 0 ]
