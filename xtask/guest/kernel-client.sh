# Drives the Linux kernel's NFS client, versions 3, 4.0, 4.1 and 4.2, against a server on the host.
#
# Parameters (environment): HOST, PORT, MOUNT_PORT, EXPORT; OPTIONS, more mount options;
# RESTART=1 to run the phase in which the host kills and restarts the server at the lines
# `PLIMSOLL-GUEST-MARK kill` and `… stop`.
# Every check prints `ok NAME` or `FAIL NAME why`; the exit status is 1 if any failed.
# The export must not squash root: ownership, devices and permissions are tested from here.

mnt=/tmp/mnt
oracle=/tmp/oracle
failures=0
options="timeo=50,retrans=2,hard,nolock,proto=tcp,mountproto=tcp,vers=3,mountvers=3${OPTIONS:+,$OPTIONS}"
mkdir -p "$mnt" "$oracle"

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

attach() { # nconnect, transfer size
    mount -t nfs -o "$options,port=$PORT,mountport=$MOUNT_PORT,nconnect=$1,rsize=$2,wsize=$2" "$HOST:$EXPORT" "$mnt"
}
attach4() { # minor version, nconnect
    mount -t nfs -o "timeo=50,hard,proto=tcp,vers=4.$1,port=$PORT,nconnect=$2${OPTIONS:+,$OPTIONS}" "$HOST:$EXPORT" "$mnt"
}
detach() { umount "$mnt"; }

# The checks that follow would prove nothing on the directory below a mount that failed.
require_mount() {
    mountpoint -q "$mnt" && return
    say "kernel client: nothing is mounted, giving up"
    exit 1
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
    local connections size
    for connections in 1 16; do
        for size in 4096 32768 131072 1048576; do
            check "mount.nconnect$connections.size$size" attach $connections $size
            require_mount
            check "transfer.nconnect$connections.size$size" mounted_as_asked $connections $size
            [ $connections -eq 1 ] || check "connections.nconnect$connections.size$size" connections_in_use 16
            check "umount.nconnect$connections.size$size" detach
        done
    done
    check mount.missing-export missing_export
    check mount.subdirectory subdirectory
}

# --- file operations --------------------------------------------------------------------------

create_read() { echo hello >f; same "$(cat f)" hello; same "$(stat -c %s f)" 6; }
append() { echo a >f; echo b >>f; drop_caches; echo c >>f; same "$(cat f)" $'a\nb\nc'; }
truncate_both_ways() {
    printf 0123456789 >f
    truncate -s 4 f
    same "$(cat f)" 0123
    truncate -s 8 f
    drop_caches
    same "$(od -An -c f | tr -d ' \n')" '0123\0\0\0\0'
    : >f
    same "$(stat -c %s f)" 0
}
overwrite_in_place() {
    printf 0123456789 >f
    printf XY | dd of=f bs=1 seek=3 conv=notrunc status=none
    drop_caches
    same "$(cat f)" 012XY56789
}
rename_plain() { echo 1 >a; mv a b; absent a; same "$(cat b)" 1; }
rename_over() {
    echo old >b
    echo new >a
    local inode
    inode=$(stat -c %i a)
    mv -f a b
    same "$(cat b)" new
    same "$(stat -c %i b)" "$inode"
    absent a
}
rename_directory() {
    mkdir -p d1/sub d2
    echo x >d1/sub/f
    mv d1 d2/moved
    same "$(cat d2/moved/sub/f)" x
    same "$(ls -a d2/moved | tr '\n' ' ')" ". .. sub "
    same "$(cd d2/moved && /bin/pwd)" "$PWD/d2/moved"
    # perl, because mv would rather move into the directory than rename over it.
    mkdir -p e1 full/x
    refused "Directory not empty" perl -e 'rename "e1", "full" or die "$!"'
    echo f >plain
    refused "Is a directory" perl -e 'rename "plain", "e1" or die "$!"'
    refused "Not a directory" perl -e 'rename "e1", "plain" or die "$!"'
    mkdir e2
    perl -e 'rename "e1", "e2" or die "$!"'
    absent e1
    refused "Invalid argument" perl -e 'rename "d2", "d2/moved/d2" or die "$!"'
}
hard_link() {
    echo one >a
    ln a b
    same "$(stat -c '%h %i' a)" "$(stat -c '%h %i' b)"
    same "$(stat -c %h a)" 2
    echo two >b
    same "$(cat a)" two
    rm a
    same "$(stat -c %h b)" 1
    same "$(cat b)" two
    echo x >c
    refused "File exists" ln b c
    mkdir d
    refused "not permitted" perl -e 'link "d", "e" or die "$!"'
}
symbolic_link() {
    echo t >target
    ln -s target link
    same "$(readlink link)" target
    same "$(cat link)" t
    same "$(stat -c %F link)" "symbolic link"
    ln -s no/such/../place dangling
    same "$(readlink dangling)" no/such/../place
    refused "No such file" cat dangling
    local long
    long=$(printf 'x%.0s' {1..1000})
    ln -s "$long" long
    drop_caches
    same "$(readlink long)" "$long"
    ln -s loop loop
    refused "Too many levels" cat loop
}
modes() {
    echo x >f
    for mode in 0 644 4755 2755 1777 7777 600; do
        chmod $mode f
        drop_caches
        same "$(stat -c %a f)" $mode
    done
    (umask 027; : >masked; mkdir masked-dir)
    same "$(stat -c %a masked masked-dir | tr '\n' ' ')" "640 750 "
}
owners() {
    echo x >f
    chown 1234:5678 f
    same "$(stat -c '%u %g' f)" "1234 5678"
    chown 4294967293 f
    drop_caches
    same "$(stat -c '%u %g' f)" "4294967293 5678"
    ln -s f link
    chown -h 7:8 link
    same "$(stat -c '%u %g' link)" "7 8"
    same "$(stat -c %u f)" 4294967293
}
times() {
    echo x >f
    touch -d '2001-02-03 04:05:06.123456789 UTC' f
    drop_caches
    same "$(TZ=UTC stat -c '%y' f)" "2001-02-03 04:05:06.123456789 +0000"
    touch -a -d '2010-01-01 UTC' f
    same "$(stat -c '%X %Y' f)" "1262304000 981173106"
    local before
    before=$(stat -c %Z f)
    sleep 1.1
    chmod 600 f
    [ "$(stat -c %Z f)" -gt "$before" ]
    touch f
    # The server's clock, not an instant in 2001; the two machines' clocks agree within minutes.
    local difference=$(($(stat -c %Y f) - $(date +%s)))
    [ ${difference#-} -lt 300 ] || { echo "clock difference $difference s"; return 1; }
    mkdir d
    before=$(stat -c %Y d)
    sleep 1.1
    : >d/f
    [ "$(stat -c %Y d)" -gt "$before" ]
}
fifo() {
    mkfifo p
    same "$(stat -c %F p)" fifo
    (echo through >p) &
    same "$(cat p)" through
    wait
}
devices() {
    mknod null c 1 3
    mknod loop b 7 9
    drop_caches
    same "$(stat -c '%F %t %T' null)" "character special file 1 3"
    same "$(stat -c '%F %t %T' loop)" "block special file 7 9"
    echo gone >null
    perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or die "$!"; bind(S, sockaddr_un("sock")) or die "$!"'
    same "$(stat -c %F sock)" socket
}
names() {
    local name255 name256
    name255=$(printf 'n%.0s' {1..255})
    name256=n$name255
    echo long >"$name255"
    same "$(cat "$name255")" long
    same "$(ls | wc -l)" 1
    refused "File name too long" mkdir "$name256"
    refused "File name too long" touch "$name256"
    refused "File name too long" ln -s x "$name256"
    mv "$name255" m
    echo odd >$'sp ace\nnew\tline\\\xff\xfe*?'
    same "$(cat sp*)" odd
    echo u >"Ærøskøbing-港-🚢"
    same "$(ls | grep -c rosk)" 0
    same "$(cat Æ*)" u
    rm -f m sp* Æ*
    same "$(ls -A | wc -l)" 0
}
directories() {
    mkdir d
    refused "File exists" mkdir d
    same "$(stat -c %h d)" 2
    mkdir d/e
    same "$(stat -c %h d)" 3
    refused "Directory not empty" rmdir d
    rmdir d/e d
    refused "No such file" rmdir d
    echo f >f
    refused "Not a directory" rmdir f
    refused "Not a directory" touch f/g
    refused "Is a directory" perl -e 'open(F, ">", ".") or die "$!"'
    mkdir -p 1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16
    echo deep >1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/f
    rm -r 1
    absent 1
}
exclusive_create() {
    perl -MFcntl -e 'sysopen(F, "x", O_WRONLY|O_CREAT|O_EXCL, 0640) or die "$!"; syswrite(F, "mine")'
    same "$(cat x)" mine
    same "$(stat -c %a x)" 640
    refused "File exists" perl -MFcntl -e 'sysopen(F, "x", O_WRONLY|O_CREAT|O_EXCL) or die "$!"'
    ln -s nowhere link
    refused "File exists" perl -MFcntl -e 'sysopen(F, "link", O_WRONLY|O_CREAT|O_EXCL) or die "$!"'
    # The times must be of now, though the server kept the create verifier in them for a moment.
    local difference=$(($(stat -c %Y x) - $(date +%s)))
    [ ${difference#-} -lt 300 ] || { echo "mtime off by $difference s"; return 1; }
}
one_winner() {
    # Eight processes create the same name exclusively: exactly one may succeed.
    for i in {1..8}; do
        perl -MFcntl -e 'sysopen(F, "race", O_WRONLY|O_CREAT|O_EXCL) and print "won\n"' >"/tmp/race.$i" &
    done
    wait
    same "$(cat /tmp/race.* | wc -l)" 1
}
sparse() {
    truncate -s 5G big
    printf tail | dd of=big bs=1 seek=5368709116 conv=notrunc status=none
    printf mid | dd of=big bs=1 seek=4294967295 conv=notrunc status=none
    drop_caches
    same "$(stat -c %s big)" 5368709120
    [ "$(stat -c %b big)" -lt 20000 ] || { echo "$(stat -c %b big) blocks"; return 1; }
    same "$(dd if=big bs=1 skip=5368709116 status=none)" tail
    same "$(dd if=big bs=1 skip=4294967295 count=3 status=none)" mid
    same "$(dd if=big bs=1M count=1 skip=2000 status=none | tr -d '\0' | wc -c)" 0
}
file_system_figures() {
    local figures
    figures=$(stat -f -c '%b %f %a %c %d %l' .)
    set -- $figures
    [ "$1" -gt 0 ] && [ "$2" -le "$1" ] && [ "$3" -le "$2" ] && [ "$4" -gt 0 ] && [ "$5" -le "$4" ]
    same "$6" 255
    df -i . >/dev/null
}
open_and_unlinked() {
    echo alive >f
    exec 7<>f
    rm f
    absent f
    ls -A | grep -q '^\.nfs' || { echo "no silly rename"; return 1; }
    same "$(cat <&7)" alive
    echo more >&7
    drop_caches
    same "$(cat /proc/self/fd/7)" $'alive\nmore'
    exec 7>&-
    same "$(ls -A | grep -c '^\.nfs' || true)" 0
}
open_and_renamed() {
    echo alive >f
    exec 7<>f
    mkdir d
    mv f d/g
    same "$(cat <&7)" alive
    echo more >&7
    exec 7>&-
    drop_caches
    same "$(cat d/g)" $'alive\nmore'
}
open_and_renamed_over() {
    echo victim >v
    echo new >n
    exec 7<v
    mv -f n v
    drop_caches
    same "$(cat <&7)" victim
    same "$(cat v)" new
    exec 7<&-
    same "$(ls -A)" v
}
read_only_create() { # a file made 0444 is written through the descriptor that made it, as git does
    perl -MFcntl -e 'sysopen(F, "ro", O_WRONLY|O_CREAT|O_EXCL, 0444) or die "$!"; syswrite(F, "x" x 9000) or die "$!"; close(F) or die "$!"'
    drop_caches
    same "$(stat -c '%a %s' ro)" "444 9000"
}
execute() {
    cp /bin/true t
    drop_caches
    ./t
    chmod a-x t
    refused "Permission denied" ./t
}
list_while_removing() {
    mkdir d
    for i in {1..400}; do : >"d/file-with-a-rather-long-name-$i"; done
    drop_caches
    perl -e 'opendir(D, "d") or die "$!"; my $n = 0;
        while (defined(my $e = readdir(D))) { next if $e =~ /^\./; unlink("d/$e") or die "$e: $!"; $n++ }
        die "saw $n of 400\n" if $n != 400'
    rmdir d
}

# in_directory NAME FUNCTION: each check gets a directory of its own, so that none sees another's files.
in_directory() {
    mkdir "$mnt/work/$1"
    cd "$mnt/work/$1"
    "$2"
    cd /
    rm -rf "$mnt/work/$1"
    absent "$mnt/work/$1"
}

file_operations() { # label
    rm -rf "$mnt/work"
    mkdir "$mnt/work"
    local operation
    for operation in create_read append truncate_both_ways overwrite_in_place rename_plain rename_over \
        rename_directory hard_link symbolic_link modes owners times fifo devices names directories \
        exclusive_create one_winner sparse file_system_figures open_and_unlinked open_and_renamed \
        open_and_renamed_over read_only_create execute list_while_removing; do
        check "$1.$operation" in_directory $operation $operation
    done
}

# --- permissions ------------------------------------------------------------------------------

as_user() { setpriv --reuid 1000 --regid 1000 --groups "$groups" -- "$@"; }

permissions_files() {
    groups=1000,2000
    chmod 777 .
    (umask 077; echo secret >private; echo shared >shared; echo drop >drop; mkdir closed; echo in >closed/f)
    chown 0:2000 shared drop
    chmod 640 shared
    chmod 620 drop
    refused "Permission denied" as_user cat private
    same "$(as_user cat shared)" shared
    refused "Permission denied" as_user sh -c 'echo x >>shared'
    as_user sh -c 'echo x >>drop'
    refused "Permission denied" as_user cat drop
    refused "Permission denied" as_user cat closed/f
    refused "Permission denied" as_user ls closed
    chmod 711 closed
    chmod 644 closed/f
    same "$(as_user cat closed/f)" in
    refused "Permission denied" as_user ls closed
    groups=1000
    refused "Permission denied" as_user cat shared
    groups=1000,3001,3002,3003,3004,3005,3006,3007,3008,3009,3010,3011,3012,3013,3014,2000
    same "$(as_user cat shared)" shared
}
permissions_changes() {
    groups=1000,2000
    chmod 777 .
    echo x >roots
    chmod 666 roots
    refused "not permitted" as_user chmod 600 roots
    refused "not permitted" as_user chown 1000 roots
    refused "not permitted" as_user touch -d '2001-01-01' roots
    as_user touch roots
    as_user sh -c 'echo mine >mine'
    same "$(stat -c '%u %g' mine)" "1000 1000"
    as_user chgrp 2000 mine
    same "$(stat -c '%u %g' mine)" "1000 2000"
    refused "not permitted" as_user chgrp 4000 mine
    refused "not permitted" as_user chown 0 mine
    # The owner may write through an open descriptor whatever the mode says by then.
    as_user sh -c 'exec 5>owner; chmod 000 owner; echo still >&5; exec 5>&-'
    same "$(cat owner)" still
    mkdir closed
    refused "Permission denied" as_user touch closed/f
    refused "Permission denied" as_user mkdir closed/d
    refused "Permission denied" as_user ln -s x closed/l
    echo f >closed/f
    refused "Permission denied" as_user rm -f closed/f
    refused "Permission denied" as_user mv closed/f g
    refused "not permitted" as_user mknod device c 1 3
}
permissions_special_bits() {
    groups=1000,2000
    chmod 777 .
    mkdir sticky
    chmod 1777 sticky
    echo x >sticky/roots
    chmod 666 sticky/roots
    refused "not permitted" as_user rm -f sticky/roots
    refused "not permitted" as_user mv sticky/roots sticky/theirs
    as_user touch sticky/mine
    as_user rm sticky/mine
    mkdir team
    chown 0:2000 team
    chmod 2775 team
    as_user sh -c 'umask 022; touch team/f; mkdir team/d'
    same "$(stat -c '%g %a' team/f)" "2000 644"
    same "$(stat -c '%g %a' team/d)" "2000 2755"
    cp /bin/true tool
    chmod 6777 tool
    as_user sh -c 'echo x >>tool'
    drop_caches
    same "$(stat -c %a tool)" 777
    as_user cp /bin/true own
    as_user chmod 4755 own
    chown 1001:1001 own
    drop_caches
    same "$(stat -c '%u %a' own)" "1001 755"
}

permissions() {
    check permissions.files in_directory files permissions_files
    check permissions.changes in_directory changes permissions_changes
    check permissions.special-bits in_directory special permissions_special_bits
}

# --- data -------------------------------------------------------------------------------------

verify_with_fio() { # name, options…
    local name=$1
    shift
    fio --name="$name" --directory="$mnt/work" --size=12m --verify=crc32c --verify_fatal=1 --do_verify=1 \
        --randrepeat=1 --invalidate=1 --group_reporting --fallocate=none "$@"
    rm -f "$mnt/work/$name".*
}

data() { # label
    check "$1.fio.buffered-random" verify_with_fio bufrand --size=3m --rw=randwrite --bs=4k --ioengine=psync --end_fsync=1
    check "$1.fio.direct-random" verify_with_fio dirrand --size=4m --rw=randwrite --bs=8k --direct=1 --ioengine=libaio --iodepth=16 --numjobs=2
    check "$1.fio.direct-mixed" verify_with_fio dirmix --rw=randrw --bsrange=512-128k --blockalign=512 --direct=1 --ioengine=libaio --iodepth=8
    check "$1.fio.mapped" verify_with_fio mapped --rw=randwrite --bs=4k --size=2m --ioengine=mmap
}

more_data() { # label
    check "$1.fio.buffered-sequential" verify_with_fio bufseq --rw=write --bs=64k --ioengine=psync --end_fsync=1
    check "$1.fio.buffered-odd" verify_with_fio bufodd --size=3m --rw=randwrite --bs=7001 --ioengine=psync --end_fsync=1
    check "$1.fio.direct-large" verify_with_fio dirlarge --rw=write --bs=1m --direct=1 --ioengine=libaio --iodepth=4
    check "$1.fio.synchronous" verify_with_fio osync --rw=randwrite --bs=4k --size=1m --sync=1 --ioengine=psync
}

listing() { (cd "$1" && find . -printf '%P %y %m %U %G %n %s %T@ %l\n' | sed -E 's/^(.* d [0-7]+ [0-9]+ [0-9]+ [0-9]+) [0-9]+/\1/' | sort); }

copy_tree() {
    local source=$oracle/tree
    mkdir -p "$source"
    cp -a /etc /usr/lib/x86_64-linux-gnu/perl-base "$source/"
    cp -a "$source" "$mnt/work/tree"
    drop_caches
    diff -r --no-dereference "$source" "$mnt/work/tree"
    listing "$source" >/tmp/listing.source
    listing "$mnt/work/tree" >/tmp/listing.copy
    diff /tmp/listing.source /tmp/listing.copy
    cp -r "$mnt/work/tree/etc" "$mnt/work/again"
    diff -r --no-dereference "$mnt/work/tree/etc" "$mnt/work/again"
    rm -r "$mnt/work/tree" "$mnt/work/again"
    absent "$mnt/work/tree"
}

many_files() {
    local dir=$mnt/work/many
    mkdir "$dir"
    (cd "$dir" && perl -e 'for (1..10000) { open(F, ">", sprintf("entry-%05d", $_)) or die "$_: $!" }')
    drop_caches
    same "$(ls -U "$dir" | wc -l)" 10000
    drop_caches
    same "$(ls -l "$dir" | tail -n +2 | sort -k 9 | awk '{print $9}' | uniq | wc -l)" 10000
    seq -f 'entry-%05.0f' 10000 >/tmp/many.expected
    ls "$dir" | diff /tmp/many.expected -
    rm -r "$dir"
    absent "$dir"
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
    local writer
    echo held >"$mnt/work/held"
    exec 8<"$mnt/work/held"
    for writer in stream buffered direct names; do
        (
            set -e
            "restart_$writer"
        ) >"/tmp/restart.$writer" 2>&1 &
        eval "pid_$writer=$!"
    done
    sleep 4
    mark kill
    sleep 7
    mark stop
    for writer in stream buffered direct names; do
        eval "wait \$pid_$writer"
        local status=$?
        check "restart.writer.$writer" restart_outcome $writer $status
    done
    # Through a second mount nothing comes from the page cache.
    drop_caches
    check restart.stream cmp "$oracle/random" "$mnt/work/stream"
    check restart.buffered restart_check_buffered
    check restart.names restart_check_names
    check restart.open-file same "$(cat <&8)" held
    exec 8<&-
}
restart_outcome() {
    tail -n 5 "/tmp/restart.$1"
    return "$2"
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

# Locks of version 4 need no port mapper and no daemon.
locks4() {
    local file=$mnt/locked
    echo held >"$file"
    flock -n "$file" -c "! flock -n $file true"
    flock -n -s "$file" -c "flock -n -s $file true && ! flock -n -x $file true"
    flock -n "$file" true
    rm "$file"
}

# Another minor version is another client. Without being told of the lock, this one would ask for it after 1, 3 and 7 seconds.
lock_wakes() { # the other minor version
    local other=/tmp/other
    mkdir -p "$other"
    touch "$mnt/waited"
    mount -t nfs -o "timeo=50,hard,proto=tcp,vers=4.$1,port=$PORT${OPTIONS:+,$OPTIONS}" "$HOST:$EXPORT" "$other"
    flock "$other/waited" -c 'sleep 5; cut -d" " -f1 /proc/uptime >/tmp/released' &
    sleep 1
    flock "$mnt/waited" -c 'cut -d" " -f1 /proc/uptime >/tmp/locked'
    wait $!
    umount "$other"
    rm "$mnt/waited"
    awk -v released="$(cat /tmp/released)" -v locked="$(cat /tmp/locked)" 'BEGIN {
        waited = locked - released
        print "locked after " waited " s"
        exit !(waited >= 0 && waited < 1)
    }'
}

# What is longer than 64 MiB is copied in one call that is answered before it is done.
long_copy() {
    local before
    before=$(operations COPY)
    yes 'a long copy' | head -c 83886080 >"$mnt/long"
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
operations() { awk -v name="$1:" '$1 == name { n += $2 } END { print n + 0 }' /proc/self/mountstats; }

# ----------------------------------------------------------------------------------------------

modprobe nfs || exit 1
say "kernel client: $HOST:$EXPORT port $PORT, mount port $MOUNT_PORT"
mounts
check mount.one-connection attach 1 65536
require_mount
file_operations nconnect1
data nconnect1
check umount.one-connection detach
check mount.sixteen-connections attach 16 1048576
require_mount
file_operations nconnect16
permissions
data nconnect16
more_data nconnect16
check copy-tree copy_tree
check ten-thousand-files many_files
[ -z "$RESTART" ] || restart
rm -rf "$mnt/work"
check umount.sixteen-connections detach
check pseudo-root pseudo_root
check mount.4.0 attach4 0 1
require_mount
file_operations v4.0
data v4.0
check locks.4.0 locks4
rm -rf "$mnt/work"
check umount.4.0 detach
check mount.4.1 attach4 1 1
require_mount
file_operations v4.1
permissions
data v4.1
check locks.4.1 locks4
check lock-wakes.4.1 lock_wakes 2
check delegation.4.1 delegation4
rm -rf "$mnt/work"
check umount.4.1 detach
check mount.4.2 attach4 2 4
require_mount
file_operations v4.2
data v4.2
more_data v4.2
check locks.4.2 locks4
check lock-wakes.4.2 lock_wakes 1
check delegation.4.2 delegation4
check long-copy.4.2 long_copy
rm -rf "$mnt/work"
check umount.4.2 detach
say "kernel client: $failures failed"
[ "$failures" -eq 0 ]
