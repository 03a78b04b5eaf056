# The kernel's clients at managed volumes: what df shows, what a full volume says, and limits that grow while fio runs, over NFS and SMB.
#
# Parameters (environment): HOST, PORT, SMB_PORT; NAME and PASSWORD of the user; HELD_BYTES, SMALL_BYTES: the sizes of the volumes
# /held and /shared, and /small; BEFORE, AFTER: the limit of the first two in KiB/s before and after the lines `PLIMSOLL-GUEST-MARK
# resize-held` and `resize-shared`, upon which the host enlarges them. At `share` it limits the volume
# /busy to a client's share, at `busy` to twice that, and holds it at that limit.
# At `PLIMSOLL-GUEST-MARK clients` it looks who is connected. Every check prints `ok NAME` or `FAIL NAME why`.

options="port=$PORT,mountport=$PORT,hard,nolock,proto=tcp,mountproto=tcp,vers=3,mountvers=3"
failures=0
# The script's own output, for marks from within checks.
exec 3>&1
mkdir -p /tmp/held /tmp/small /tmp/shared

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
    if [ $status -eq 0 ]; then
        say "ok $name $(tail -n 1 /tmp/check.out)"
    else
        failures=$((failures + 1))
        say "FAIL $name status $status: $(tail -n 8 /tmp/check.out | tr '\n' '|')"
    fi
}

same() { [ "$1" = "$2" ] || { echo "expected '$2', got '$1'"; return 1; }; }
near() { # VALUE WANTED PERCENT
    local off=$((($1 - $2) * 100 / $2))
    echo "$1 KiB/s of $2, $off % off"
    [ ${off#-} -le "$3" ]
}
bytes() { df -B1 --output="$2" "$1" | tail -n 1 | tr -d ' '; }

mounts() {
    mount -t nfs -o "$options,nconnect=4" "$HOST:/held" /tmp/held
    mount -t nfs -o "$options,nconnect=4,rsize=1048576,wsize=1048576" "$HOST:/small" /tmp/small
}

mount_share() {
    modprobe cifs
    mount -i -t cifs "//$HOST/shared" /tmp/shared -o \
        "ip=$HOST,port=$SMB_PORT,username=$NAME,password=$PASSWORD,vers=3.1.1,cache=none"
    same "$(bytes /tmp/shared size)" "$HELD_BYTES"
}

df_shows_the_volume() {
    same "$(bytes /tmp/held size)" "$HELD_BYTES"
    same "$(bytes /tmp/small size)" "$SMALL_BYTES"
    same "$(bytes /tmp/small used)" 0
}

full() {
    local message
    message=$(dd if=/dev/zero of=/tmp/small/too-much bs=1M count=$((SMALL_BYTES / 1048576 + 8)) conv=fsync 2>&1) && return 1
    case $message in *"No space left on device"*) ;; *) echo "$message"; return 1 ;; esac
    [ "$(bytes /tmp/small used)" -le "$SMALL_BYTES" ]
    # The file itself takes something, too, so the last of the writes of a MiB that are in flight together do not fit.
    [ "$(bytes /tmp/small avail)" -lt 4194304 ]
}

room_again() {
    rm /tmp/small/too-much
    sync
    dd if=/dev/urandom of=/tmp/small/fits bs=1M count=$((SMALL_BYTES / 1048576 / 2)) conv=fsync status=none
    [ "$(bytes /tmp/small used)" -ge $((SMALL_BYTES / 2)) ]
    # Over what is there, a full volume may be written.
    dd if=/dev/zero of=/tmp/small/rest bs=64k conv=fsync status=none 2>/dev/null && return 1
    dd if=/dev/urandom of=/tmp/small/fits bs=1M count=4 conv=notrunc,fsync status=none
    rm /tmp/small/rest /tmp/small/fits
}

# The median of a bandwidth log's seconds FROM to TO, in KiB/s: a few in which the machine stood still do not move it.
median() { # LOG FROM TO
    awk -F ', *' -v from="$2" -v to="$3" '$1 >= from * 1000 && $1 < to * 1000 { print $2 }' "$1" | sort -n |
        awk '{ value[NR] = $1 } END { printf "%d\n", (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

fio_runs() { # VOLUME
    cd "/tmp/$1"
    fio --name=lay --filename=data --size=12m --rw=write --bs=256k --end_fsync=1 --output=/tmp/lay.out
    # In the middle between the seconds that are looked at: fio begins to count them a little later.
    (sleep 12; mark "resize-$1" >&3) &
    fio --name=hold --filename=data --size=12m --rw=randrw --rwmixread=70 --bs=64k --direct=1 --ioengine=libaio --iodepth=16 \
        --time_based --runtime=22 --write_bw_log=/tmp/hold --log_avg_msec=1000 --log_unix_epoch=0 --output=/tmp/hold.out
    # Reads and writes are logged apart; together they are held.
    awk -F ', *' '{ second = int(($1 + 500) / 1000); sum[second] += $2 }
        END { for (second in sum) print second * 1000 ", " sum[second] }' /tmp/hold_bw.1.log >/tmp/sum.log
}
grows() { # VOLUME
    check "$1.fio" fio_runs "$1"
    check "$1.before" near "$(median /tmp/sum.log 3 9)" "$BEFORE" 5
    check "$1.after" near "$(median /tmp/sum.log 15 22)" "$AFTER" 5
    check "$1.df-after" same "$(bytes "/tmp/$1" size)" $((2 * HELD_BYTES))
}

# A second client's work at the volume `busy`, over each protocol: it mounts, lists 1,000 files, looks at some, and copies 1 MiB.
attach() { # VERSION
    case $1 in
    smb) mount -i -t cifs "//$HOST/busy" /tmp/busy -o \
        "ip=$HOST,port=$SMB_PORT,username=$NAME,password=$PASSWORD,vers=3.1.1" ;;
    3) mount -t nfs -o "$options" "$HOST:/busy" /tmp/busy ;;
    *) mount -t nfs -o "port=$PORT,hard,proto=tcp,vers=$1" "$HOST:/busy" /tmp/busy ;;
    esac
}
work() { # VERSION
    attach "$1"
    same "$(ls -l /tmp/busy/many | grep -c file-)" 1000
    stat /tmp/busy/many/file-1 /tmp/busy/many/file-999 >/dev/null
    cp /tmp/busy/mib /tmp/mib
    cp /tmp/mib "/tmp/busy/copy-$1"
    sync "/tmp/busy/copy-$1"
    umount /tmp/busy
}
files() {
    mkdir -p /tmp/busy
    attach 3
    mkdir /tmp/busy/many
    (cd /tmp/busy/many && seq -f file-%g 1000 | xargs touch)
    dd if=/dev/urandom of=/tmp/busy/mib bs=1M count=1 conv=fsync status=none
    chmod -R a+rwX /tmp/busy/many /tmp/busy/mib
    umount /tmp/busy
}
# The time that the work takes, in hundredths of a second; the best of two.
takes() { # VERSION
    local began best=999999 took round
    for round in 1 2; do
        began=$(cut -d ' ' -f 1 /proc/uptime | tr -d .)
        work "$1" || return 1
        took=$(($(cut -d ' ' -f 1 /proc/uptime | tr -d .) - began))
        [ $took -lt $best ] && best=$took
    done
    echo $best >"/tmp/takes-$2-$1"
    echo "${best}0 ms"
}
# Beside a load that holds the volume at its limit, the work takes at most twice as long as alone at half of that limit.
within_share() { # VERSION
    local alone beside
    takes "$1" beside
    alone=$(cat "/tmp/takes-alone-$1")
    beside=$(cat "/tmp/takes-beside-$1")
    echo "${beside}0 ms beside the load, ${alone}0 ms alone at the share"
    [ "$beside" -le $((2 * alone)) ]
}
neighbors() {
    local version
    check busy.files files
    mark share
    sleep 6
    for version in 3 4.0 4.1 4.2 smb; do check "busy.$version.alone" takes $version alone; done
    mark busy
    sleep 10
    for version in 3 4.0 4.1 4.2 smb; do check "busy.$version.beside" within_share $version; done
}

check mount mounts
check df df_shows_the_volume
check full full
check room-again room_again
mark clients
grows held
check share mount_share
grows shared
neighbors
umount /tmp/held /tmp/small /tmp/shared
exit $((failures > 0))
