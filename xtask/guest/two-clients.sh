# One of two clients of one server, told what to do by the host: it reads lines from the host's port CONTROL, runs each, and answers
# with its status and the end of what it printed. Lines in between that begin with `event` say what happens in the background.
#
# Parameters (environment): HOST, CONTROL; NAME, which it says first; EXPORT, mounted over each version at /mnt/VERSION.

. /job/checks
. /job/commands

mounted() { # VERSION…
    local version options
    for version in "$@"; do
        options=vers=$version,proto=tcp,timeo=50,hard
        [ "$version" != 3 ] || options=$options,mountproto=tcp
        mkdir -p "/mnt/$version"
        mount -t nfs -o "$options" "$HOST:$EXPORT" "/mnt/$version"
    done
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
serve_commands
exit 0
