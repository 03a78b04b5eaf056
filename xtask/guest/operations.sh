# What programs do with files on a mount of the kernel's client; scripts have it by `. /job/operations`, after `/job/checks`.
# With BRIEF, files and trees are smaller. The mount is at $mnt, and the export must not squash root: ownership, devices and permissions are tested from here.

mnt=/tmp/mnt
oracle=/tmp/oracle
mkdir -p "$mnt" "$oracle"

detach() { umount "$mnt"; }

# The checks that follow would prove nothing on the directory below a mount that failed.
require_mount() {
    mountpoint -q "$mnt" && return
    say "nothing is mounted, giving up"
    exit 1
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
    fio --name="$name" --directory="$mnt/work" --size=6m --verify=crc32c --verify_fatal=1 --do_verify=1 \
        --randrepeat=1 --invalidate=1 --group_reporting --fallocate=none "$@"
    rm -f "$mnt/work/$name".*
}

data() { # label
    local small=1m medium=2m large=6m
    [ -z "$BRIEF" ] || small=512k medium=1m large=3m
    check "$1.fio.buffered-random" verify_with_fio bufrand --size=$medium --rw=randwrite --bs=4k --ioengine=psync --end_fsync=1
    check "$1.fio.direct-random" verify_with_fio dirrand --size=$medium --rw=randwrite --bs=8k --direct=1 --ioengine=libaio --iodepth=16 --numjobs=2
    check "$1.fio.direct-mixed" verify_with_fio dirmix --size=$large --rw=randrw --bsrange=512-128k --blockalign=512 --direct=1 --ioengine=libaio --iodepth=8
    check "$1.fio.mapped" verify_with_fio mapped --rw=randwrite --bs=4k --size=$small --ioengine=mmap
}

more_data() { # label
    check "$1.fio.buffered-sequential" verify_with_fio bufseq --rw=write --bs=64k --ioengine=psync --end_fsync=1
    check "$1.fio.buffered-odd" verify_with_fio bufodd --size=1500k --rw=randwrite --bs=7001 --ioengine=psync --end_fsync=1
    check "$1.fio.direct-large" verify_with_fio dirlarge --rw=write --bs=1m --direct=1 --ioengine=libaio --iodepth=4
    check "$1.fio.synchronous" verify_with_fio osync --rw=randwrite --bs=4k --size=512k --sync=1 --ioengine=psync
}

listing() { (cd "$1" && find . -printf '%P %y %m %U %G %n %s %T@ %l\n' | sed -E 's/^(.* d [0-7]+ [0-9]+ [0-9]+ [0-9]+) [0-9]+/\1/' | sort); }

copy_tree() {
    local source=$oracle/tree
    mkdir -p "$source/etc"
    if [ -n "$BRIEF" ]; then
        cp -a /etc/alternatives /etc/default /etc/init.d "$source/etc/"
    else
        cp -a /etc "$source/"
    fi
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

many_files() { # how many
    local dir=$mnt/work/many
    mkdir "$dir"
    (cd "$dir" && perl -e 'for (1..$ARGV[0]) { open(F, ">", sprintf("entry-%05d", $_)) or die "$_: $!" }' "$1")
    listed "$dir" "$1"
    rm -r "$dir"
    absent "$dir"
}
listed() { # directory, how many entries
    drop_caches
    same "$(ls -U "$1" | wc -l)" "$2"
    drop_caches
    same "$(ls -l "$1" | tail -n +2 | sort -k 9 | awk '{print $9}' | uniq | wc -l)" "$2"
    seq -f 'entry-%05.0f' "$2" >/tmp/many.expected
    ls "$1" | diff /tmp/many.expected -
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

# Lists as far as mode bits say them; one that they cannot keep is refused, not kept in part.
access_lists() {
    echo x >f
    chmod 640 f
    nfs4_getfacl f >/tmp/list
    grep -q '^A::OWNER@:rwa' /tmp/list
    grep -q '^A:g:GROUP@:r[^wa]*$' /tmp/list
    grep -q '^A::EVERYONE@:[^rwax]*$' /tmp/list
    nfs4_setfacl -s 'A::OWNER@:RWX,A:g:GROUP@:RX,A::EVERYONE@:tcy' f
    drop_caches
    same "$(stat -c %a f)" 750
    chmod 604 f
    nfs4_setfacl -a A::1234:R f && { echo "a list with a user was taken"; return 1; }
    nfs4_setfacl -s A::OWNER@:RW,A:g:5678:R f && { echo "a list with another group was taken"; return 1; }
    drop_caches
    same "$(stat -c %a f)" 604
    mkdir d
    nfs4_setfacl -s 'A::OWNER@:RWX,A:g:GROUP@:rwaDx,D::EVERYONE@:rwax' d
    same "$(stat -c %a d)" 770
}

# --- work over a restart of the server --------------------------------------------------------

start_writers() { # names: each does restart_NAME meanwhile
    local writer
    for writer; do
        (
            set -e
            "restart_$writer"
        ) >"/tmp/restart.$writer" 2>&1 &
        eval "pid_$writer=$!"
    done
}
check_writers() { # names: how each has ended
    local writer
    for writer; do
        eval "wait \$pid_$writer"
        check "restart.writer.$writer" outcome "$writer" $?
    done
}
outcome() { # name, status
    tail -n 5 "/tmp/restart.$1"
    return "$2"
}
