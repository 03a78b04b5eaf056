# The kernel's SMB client at the share of a server on the host: each dialect, signed and encrypted, with its cache and without;
# data that fio verifies, trees, a server that is killed and comes back, sessions of two connections, and the POSIX extensions.
#
# Parameters (environment): HOST, PORT, SHARE; NAME, ID and PASSWORD of the user; FILES, how many names a directory gets; UNIX, a
# share in which `link` leads to `target`, which has the word `data`; BRIEF, not empty for fewer combinations.
# The host kills the server at the line `PLIMSOLL-GUEST-MARK kill`, and starts it again. Every check prints `ok NAME` or `FAIL NAME
# why`; the exit status is 1 if any failed.

. /job/checks
. /job/operations

attach_at() { # directory, mount options
    mount -i -t cifs "//$HOST/$SHARE" "$1" -o "ip=$HOST,port=$PORT,username=$NAME,password=$PASSWORD,$2"
}
attach() { attach_at "$mnt" "nopersistenthandles,$1"; } # mount options

# Writes and renames, and what the server has of that for who mounts anew.
files() { # mount options
    attach "$1"
    cd "$mnt"
    mkdir d
    cp "$oracle/data" d/data
    mv d/data d/Moved
    same "$(ls d)" Moved
    echo more >>d/Moved
    truncate -s 12345 d/short
    local number
    for number in $(seq 40); do echo "$number" >"d/n$number"; done
    same "$(ls d | wc -l)" 42
    cd /
    detach
    attach "$1"
    head -c 9000001 "$mnt/d/Moved" | cmp - "$oracle/data"
    same "$(tail -c 5 "$mnt/d/Moved")" more
    same "$(stat -c %s "$mnt/d/short")" 12345
    same "$(cat "$mnt/d/n17")" 17
    rm -r "$mnt/d"
    same "$(ls "$mnt")" ""
    detach
}

wrong_password() {
    local PASSWORD=another
    refused "cannot mount" attach vers=3.1.1
    dmesg | grep -q STATUS_LOGON_FAILURE
}

tree() {
    cp -r "/usr/lib/x86_64-linux-gnu/perl-base${BRIEF:+/IO}" "$oracle/tree"
    cp -r "$oracle/tree" "$mnt/work/tree"
    drop_caches
    diff -r "$oracle/tree" "$mnt/work/tree"
    rm -r "$mnt/work/tree"
    absent "$mnt/work/tree"
}

mixed() { verify_with_fio mixed --size=6m --rw=randrw --bsrange=512-128k --blockalign=512 --direct=1 --ioengine=libaio --iodepth=8; }

# --- a server that is killed and comes back: durable opens are lost with it, and the client opens by name; persistent ones are not ----

# Linux answers EPIPE or ECONNABORTED to a request that it was about to send when the connection ended, and EAGAIN to an fsync
# that finds the next connection, on a hard mount too. The command is repeated until there is a connection.
unless_cut() { # command
    local said
    for _ in $(seq 20); do
        said=$("$@" 2>&1) && return
        echo "$said"
        case $said in *"Broken pipe"* | *"connection abort"* | *"temporarily unavailable"*) sleep 0.5 ;; *) return 1 ;; esac
    done
    return 1
}
block() { # number
    dd if="$oracle/data" of="$mnt/work/stream" bs=128k skip="$1" seek="$1" count=1 conv=notrunc,fsync status=none
}
restart_stream() {
    local number
    for number in $(seq 0 39); do
        unless_cut block "$number" || return
        sleep 0.25
    done
}
across() {
    fio --name=across --directory="$mnt/work" --size=8m --rw=randwrite --bs=8k --direct=1 --ioengine=libaio \
        --iodepth=4 --rate_iops=80 --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none
}
restart_direct() { unless_cut across; }
# What outlives the server is on a mount of its own, and another client of its own is kept out of it.
kept=$oracle/kept
other=$oracle/other
keep() {
    mkdir "$kept" "$other"
    attach_at "$kept" vers=3.1.1,hard,persistenthandles,nosharesock
    attach_at "$other" vers=3.1.1,hard,nosharesock,cache=none
    grep " $kept " /proc/mounts | grep -q persistenthandles
}
# Locks a file, and goes on with it once it may: a lock is its process's.
holder() { # the file
    perl -e 'open(F, ">", $ARGV[0]) && flock(F, 2) && syswrite(F, "before\n") or die "$!";
        open(HELD, ">", "/tmp/held") or die "$!";
        sleep 1 until -e "/tmp/go-on";
        syswrite(F, "after\n") && close(F) or die "$!"' "$1"
}
still_locked() { ! flock -n "$other/work/kept" true || { echo "the lock is lost"; return 1; }; }
still_kept() {
    same "$(tr '\n' ' ' <"$kept/work/kept")" "before after "
    # The client closes files a little later than their programs.
    for _ in $(seq 20); do
        flock -n "$other/work/kept" true && return
        sleep 0.5
    done
    return 1
}
restart() {
    echo held >"$mnt/work/held"
    exec 8<"$mnt/work/held"
    check mount.persistent keep
    holder "$kept/work/kept" &
    holder=$!
    while [ ! -e /tmp/held ] && kill -0 "$holder"; do sleep 0.2; done
    start_writers stream direct
    sleep 4
    mark kill
    check_writers stream direct
    drop_caches
    check restart.stream cmp -n $((40 * 131072)) "$oracle/data" "$mnt/work/stream"
    check restart.open-file same "$(cat <&8)" held
    exec 8<&-
    check restart.lock still_locked
    touch /tmp/go-on
    wait "$holder"
    check restart.persistent same $? 0
    check restart.kept still_kept
    umount "$kept" "$other"
}

# --- sessions of two connections --------------------------------------------------------------

# A server tells its clients of the address at which they have reached it, which to this one is its loopback. So the client reaches it
# over its own, at the only port where this kernel makes further connections.
channels() { # mount options
    local HOST=127.0.0.1 PORT=445
    : >/tmp/carried
    attach "vers=3.1.1,cache=none,multichannel,max_channels=2,$1"
    grep -q "Extra Channels: 1 " /proc/fs/cifs/DebugData
    mkdir "$mnt/work"
    mixed
    rm -r "$mnt/work"
    detach
    local try
    for try in $(seq 50); do
        [ "$(awk '$1 > 1000000' /tmp/carried | wc -l)" -lt 2 ] || return 0
        sleep 0.1
    done
    echo "bytes of the connections: $(cat /tmp/carried)"
    return 1
}

# --- the POSIX extensions ---------------------------------------------------------------------

posix_names() {
    mkdir "$mnt/d"
    cd "$mnt/d"
    echo small >a
    echo large >A
    echo odd >'x:y\z?'
    mkdir ' e.'
    mv a ' e./B'
    drop_caches
    same "$(LC_ALL=C ls | tr '\n' '|')" ' e.|A|x:y\z?|'
    same "$(cat A ' e./B' 'x:y\z?' | tr '\n' ' ')" "large small odd "
    absent a
    rm -r "$mnt/d"
    absent "$mnt/d"
}
posix_modes() {
    cd "$mnt"
    (umask 027; echo x >f; mkdir m)
    # Linux 6.1 once showed a mode that nobody had set. The second answer comes from the server, not from its cache.
    same "$(stat -c '%a %h' f)" "640 1" || {
        drop_caches
        echo "asked again: $(stat -c '%a %h %i' f m)"
        return 1
    }
    same "$(stat -c '%a %F' m)" "750 directory"
    drop_caches
    # This kernel takes owners from listings alone.
    same "$(ls -ln | awk '$9 == "f" { print $1, $3, $4 }')" "-rw-r----- $ID $ID"
    local mode
    for mode in 444 4751 600; do
        chmod "$mode" f
        drop_caches
        same "$(stat -c %a f)" "$mode"
    done
    chmod 1700 m
    same "$(stat -c %a m)" 1700
    rm -r f m
}
posix_links() {
    same "$(stat -c %F "$mnt/link")" "symbolic link"
    same "$(readlink "$mnt/link")" target
    same "$(cat "$mnt/link")" data
    same "$(stat -f -c %s "$mnt")" 4096
}

# --- links and other files of Unix ------------------------------------------------------------

# Debian 12's kernel asks for none over SMB.
makes_special_files() {
    case $(uname -r) in 6.1.*) return 1 ;; esac
}
special_files() {
    cd "$mnt"
    ln -s there/x made
    mkfifo fifo
    drop_caches
    same "$(readlink made)" there/x
    same "$(stat -c %F made fifo | tr '\n' '|')" "symbolic link|fifo|"
    ln -sfn elsewhere made
    same "$(readlink made)" elsewhere
    rm made fifo
    absent made
    absent fifo
}

# ----------------------------------------------------------------------------------------------

modprobe cifs || exit 1
mkdir "$oracle/tree"
head -c 9000001 /dev/urandom >"$oracle/data"

mounts="vers=2.1 vers=3.0,seal vers=3.1.1 vers=3.1.1,cache=none"
[ -n "$BRIEF" ] || mounts="$mounts vers=3.0 vers=3.1.1,seal vers=3.1.1,nosharesock,actimeo=0"
for options in $mounts; do
    check "files.$options" files "$options"
done
check wrong-password wrong_password

check mount.strict attach vers=3.1.1,hard
mkdir -p "$mnt/work"
data strict
check tree tree
check many-files many_files "$FILES"
if makes_special_files; then check special-files special_files; fi
restart
check umount.strict detach

check mount.none attach vers=3.1.1,seal,cache=none
check none.fio mixed
check umount.none detach
check mount.old attach vers=2.1
check vers2.1.fio mixed
rm -rf "$mnt/work"
check umount.old detach

perl /job/relay.pl 445 "$HOST" "$PORT" /tmp/carried &
until grep -q "0100007F:01BD 00000000:0000 0A" /proc/net/tcp; do sleep 0.1; done
protections="seal"
[ -n "$BRIEF" ] || protections="sign seal"
for options in $protections; do
    check "channels.$options" channels "$options"
done

# This kernel sends modes with `modefromsid` alone.
SHARE=$UNIX
check mount.posix attach vers=3.1.1,posix,modefromsid,actimeo=20
check posix.names posix_names
check posix.modes posix_modes
check posix.links posix_links
if makes_special_files; then check posix.special-files special_files; fi
check umount.posix detach

[ "$failures" -eq 0 ]
