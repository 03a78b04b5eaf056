# One of two clients of one server, told what to do by the host: it reads lines from the host's port CONTROL, runs each, and answers
# with its status and the end of what it printed. Lines in between that begin with `event` say what happens in the background.
#
# Parameters (environment): HOST, CONTROL; NAME, which it says first; EXPORT, mounted over each version at /mnt/VERSION.

. /job/checks

mounted() { # VERSION…
    local version options
    for version in "$@"; do
        options=vers=$version,proto=tcp,timeo=50,hard
        [ "$version" != 3 ] || options=$options,mountproto=tcp
        mkdir -p "/mnt/$version"
        mount -t nfs -o "$options" "$HOST:$EXPORT" "/mnt/$version"
    done
}

# lock WAIT|TRY NAME FILE START LENGTH: an exclusive lock by fcntl, which is kept until a line of its standard input; if that says so
# the file is then written.
lock() {
    exec perl -MFcntl -MIO::Handle -e '
        my ($how, $name, $file, $start, $length) = @ARGV;
        STDOUT->autoflush(1);
        open(my $locked, "+<", $file) or die "$file: $!\n";
        my $range = pack("s s x4 q q i x4", F_WRLCK, 0, $start, $length, 0);
        fcntl($locked, $how eq "WAIT" ? F_SETLKW : F_SETLK, $range) or die "$!\n";
        print "event granted $name\n";
        my $end = <STDIN> // "";
        if ($end eq "write\n") {
            syswrite($locked, "written") or die "$!\n";
            $locked->sync or die "$!\n";
        }
        close($locked) or die "$!\n";
        print "event released $name\n";' "$@"
}
try() { (lock TRY try "$@") </dev/null; }
# hold NAME FILE START LENGTH: asks for a lock and waits for it, in the background.
hold() {
    rm -f "/tmp/$1".*
    mkfifo "/tmp/$1.end"
    (
        status=0
        (lock WAIT "$@") <>"/tmp/$1.end" >&5 2>"/tmp/$1.log" || status=$?
        [ $status -eq 0 ] || echo "event failed $1" >&5
        echo $status >"/tmp/$1.status"
    ) &
}
# Lets it end, and go on as it does; `write` lets it write before.
release() { # NAME [write]
    echo "$2" >"/tmp/$1.end"
    ended "$1"
}

# Waits for the end of what runs in the background, which must be a good one.
ended() { # NAME
    while [ ! -s "/tmp/$1.status" ]; do sleep 0.1; done
    tail -n 5 "/tmp/$1.log"
    [ "$(cat "/tmp/$1.status")" -eq 0 ]
}

# A fio that verifies what it wrote, in the background.
begin_writing() { # NAME DIRECTORY
    (
        status=0
        fio --name="$1" --directory="$2" --size=16m --rw=randwrite --bs=8k --direct=1 --ioengine=libaio --iodepth=8 \
            --rate_iops=110 --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none || status=$?
        echo $status >"/tmp/$1.status"
    ) >"/tmp/$1.log" 2>&1 5>&- &
}
# The kernel says so where it got back less than it had.
nothing_lost() { ! dmesg | grep -i 'reclaim failed'; }
sum() { drop_caches; sha256sum <"$1"; }

modprobe -a nfs nfsv3 || exit 1
# There is nobody to ask for names; who does is told so at once.
: >/etc/resolv.conf
mkdir -p /run/rpcbind /run/sendsigs.omit.d
rpcbind -w
rpc.statd
exec 5<>"/dev/tcp/$HOST/$CONTROL" || exit 1
echo "$NAME" >&5
while read -r command <&5; do
    (
        set -e
        eval "$command"
    ) >/tmp/command.out 2>&1
    status=$?
    say "$command: $status"
    echo "$status $(tail -n 5 /tmp/command.out | tr '\n' '|')" >&5
done
exit 0
