# The kernel's client over TLS (RPC with TLS, RFC 9289), its handshakes made by tlshd.
#
# Parameters (environment): HOST; PORT of a server that allows TLS, with the volumes /any, /tls and /mtls, named for what their
# rules ask for; STRICT_PORT of one that requires TLS, with the volume /any. Files in /job: ca.pem, by which the servers are known;
# plimsoll, server.pem and server.key for a server in the guest; client.pem and client.key, a certificate that they trust; stranger.pem, which nobody trusts and which issued nothing.
# CONNECTIONS of the first mount; BRIEF, not empty for fewer repetitions. At `PLIMSOLL-GUEST-MARK tls` and `… mtls` the host looks how the connections of the mount that is
# there are protected; at `… kill` it kills the first server and starts it again.
# Every check prints `ok NAME` or `FAIL NAME why`; the exit status is 1 if any failed.

. /job/checks
. /job/operations
# The script's own output, for marks from within checks.
exec 3>&1
chmod 600 /job/client.key /job/server.key

# daemon AUTHORITY [shows]: starts tlshd, which believes AUTHORITY, and waits until it listens; with `shows` it has the client's
# certificate.
daemon() {
    [ -z "$tlshd" ] || { kill "$tlshd"; wait "$tlshd"; tlshd=; }
    [ -n "$1" ] || return
    {
        printf '[debug]\nloglevel=0\ntls=0\nnl=0\n[authenticate]\n[authenticate.client]\nx509.truststore=/job/%s\n' "$1"
        [ -z "$2" ] || printf 'x509.certificate=/job/client.pem\nx509.private_key=/job/client.key\n'
    } >/tmp/tlshd.conf
    tlshd -s -c /tmp/tlshd.conf >/dev/null 2>&1 &
    tlshd=$!
    # It is asked for handshakes once its socket of generic netlink, protocol 16, is in a group.
    for _ in $(seq 50); do
        awk '$2 == 16 && $4 !~ /^0+$/ { found = 1 } END { exit !found }' /proc/net/netlink && break
        sleep 0.1
    done
}

# attach VERSION XPRTSEC VOLUME [OPTION]: a mount at $mnt.
attach() { attach_at "$mnt" "$PORT" "$@"; }
attach_at() { # directory, port, version, xprtsec, volume, option
    local options="timeo=100,retrans=1,hard,proto=tcp,vers=$3,port=$2,xprtsec=$4${6:+,$6}"
    [ "$3" != 3 ] || options="$options,nolock,mountproto=tcp,mountvers=3,mountport=$2"
    mkdir -p "$1"
    timeout 60 mount -t nfs -o "$options" "$HOST:/$5" "$1"
}

# not_mounted TEXT ARGUMENT…: `attach` must fail, and say TEXT.
not_mounted() { refused "$1" attach "${@:2}"; }

# Bytes that go out and come back, and a fio that verifies.
transfers() {
    mkdir -p "$mnt/work"
    dd if="$oracle/random" of="$mnt/work/random" bs=1M conv=fsync status=none
    drop_caches
    cmp "$oracle/random" "$mnt/work/random"
    verify_with_fio mixed --size=4m --rw=randrw --bsrange=512-128k --blockalign=512 --direct=1 --ioengine=libaio --iodepth=8
    rm -r "$mnt/work"
}

# A mount in clear and one with TLS side by side, of one server and one volume.
side_by_side() {
    local other=/tmp/other
    attach 4.2 none any
    attach_at $other "$PORT" 4.2 tls any
    grep " $mnt nfs4 " /proc/mounts | grep -vq xprtsec=tls
    grep -q " $other nfs4 .*xprtsec=tls" /proc/mounts
    echo clear >"$mnt/side"
    same "$(cat $other/side)" clear
    flock "$mnt/side" -c "! flock -n $other/side true"
    flock -n $other/side true
    rm "$mnt/side"
    umount "$mnt" $other
}

# The server is killed while fio writes, and the client shakes hands anew.
across_a_crash() {
    (sleep 3; mark kill >&3) &
    verify_with_fio across --size=8m --rw=randwrite --bs=8k --direct=1 --ioengine=libaio --iodepth=8 --rate_iops=120
    wait $!
}

required() {
    attach_at "$mnt" "$STRICT_PORT" 4.2 tls any
    transfers
    detach
    refused "access denied" attach_at "$mnt" "$STRICT_PORT" 4.2 none any
    # Its MNT goes in clear.
    refused "access denied" attach_at "$mnt" "$STRICT_PORT" 3 tls any
}

# A server in the guest, whose kernel has TLS: it does what the handshake has agreed on, for the server as for the client.
in_the_kernel() {
    local served=/tmp/served HOST=127.0.0.1
    mkdir -p $served
    /job/plimsoll export $served --listen $HOST:2049 --no-portmap --squash none --state /tmp/state \
        --tls allow --tls-cert /job/server.pem --tls-key /job/server.key >/tmp/server.log 2>&1 &
    local server=$! before
    until grep -q mount /tmp/server.log; do sleep 0.2; done
    before=$(sockets_of_the_kernel)
    attach_at "$mnt" 2049 "$1" tls served
    same $(($(sockets_of_the_kernel) - before)) 2
    transfers
    cp "$oracle/random" $served/random
    cmp "$oracle/random" "$mnt/random"
    detach
    kill $server
    wait $server
    rm -rf $served /tmp/state
}
sockets_of_the_kernel() { awk '$1 == "TlsCurrTxSw" { print $2 }' /proc/net/tls_stat; }

all_of_it() { # version, xprtsec, option
    local label=$2.$1
    check "$label.mount" attach "$1" "$2" "$2" "$3"
    require_mount
    check "$label.option" grep -q " $mnt nfs4 .*xprtsec=$2" /proc/mounts
    mark "$2"
    # The operations are those of the other protection.
    if [ -n "$BRIEF" ] && [ "$2" = mtls ]; then
        mkdir "$mnt/work"
    else
        file_operations "$label"
    fi
    data "$label"
    [ "$2" != tls ] || check "$label.across-a-crash" across_a_crash
    check "$label.locks" locks4
    rm -rf "$mnt/work"
    check "$label.umount" detach
}
version3() { # xprtsec
    attach 3 "$1" "$1"
    transfers
    detach
}

modprobe -a nfs tls || exit 1
say "tls: $(uname -r), $(tlshd --version 2>&1 | tail -n 1)"
dd if=/dev/urandom of="$oracle/random" bs=1M count=6 status=none
check refused.no-daemon not_mounted "No such process" 4.2 tls tls
daemon ca.pem
check refused.tls.4.2.clear not_mounted "No such file" 4.2 none tls
check refused.tls.3.clear not_mounted "access denied" 3 none tls
check refused.mtls.4.2.clear not_mounted "No such file" 4.2 none mtls
check refused.mtls.4.2.tls not_mounted "No such file" 4.2 tls mtls
check refused.mtls.3.tls not_mounted "access denied" 3 tls mtls
all_of_it 4.2 tls "nconnect=$CONNECTIONS"
check tls.3 version3 tls
check side-by-side side_by_side
check required required
daemon ca.pem shows
check refused.mtls.4.2.clear-with-certificate not_mounted "No such file" 4.2 none mtls
all_of_it 4.1 mtls
check mtls.3 version3 mtls
check kernel.4.2 in_the_kernel 4.2
check kernel.3 in_the_kernel 3
daemon stranger.pem
check refused.stranger not_mounted "access denied" 4.2 tls any
say "tls: $failures failed"
[ "$failures" -eq 0 ]
