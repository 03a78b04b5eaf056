# `quota` of Debian over mounts of the kernel's client.
#
# Parameters (environment): HOST, PORT of NFS, RQUOTA_PORT. The volumes are /work and /squashed. User 1001 may have 4 MiB
# and 20 files, group 2001 of /work 100 GiB, and 1 MiB for 48 hours.
# Every check prints `ok NAME` or `FAIL NAME why`; the exit status is 1 if any failed.

. /job/checks
mnt=/tmp/mnt
mkdir -p $mnt

attach() { # version path
    local options="timeo=100,retrans=1,hard,proto=tcp,vers=$1,port=$PORT"
    [ "$1" != 3 ] || options="$options,nolock,mountproto=tcp,mountvers=3,mountport=$PORT"
    timeout 60 mount -t nfs -o "$options" "$HOST:$2" $mnt
}

as_alice() { setpriv --reuid 1001 --regid 2001 --groups 2001 "$@"; }

# A line of `quota` for this mount: blocks, limits, files, limits. An asterisk marks an excess.
line() { # options of quota
    quota --raw-grace --no-wrap --show-mntpoint --hide-device "$@" | awk -v mnt=$mnt '$1 == mnt { $1 = ""; print }' | sed 's/^ *//'
}

port_is_registered() {
    rpcinfo -p "$HOST" >/tmp/programs
    same "$(awk -v port="$RQUOTA_PORT" '$1 == 100011 && $4 == port { print $2, $3 }' /tmp/programs | sort | tr '\n' ';')" \
        "1 tcp;1 udp;2 tcp;2 udp;"
    rpcinfo -u "$HOST" 100011 1
    rpcinfo -t "$HOST" 100011 2
}

write_files() {
    rm -rf $mnt/alice
    as_alice mkdir $mnt/alice
    # 2 MiB in 2 files.
    as_alice dd if=/dev/zero of=$mnt/alice/one bs=1M count=1 conv=fsync status=none
    as_alice dd if=/dev/zero of=$mnt/alice/two bs=1M count=1 conv=fsync status=none
}

root_sees_a_user() { same "$(line --user --verbose 1001)" "2048 0 4096 0 2 0 20 0"; }
root_sees_a_group() {
    local seen left
    seen=$(line --group --verbose 2001)
    left=$(echo "$seen" | cut -d ' ' -f 4)
    same "$(echo "$seen" | cut -d ' ' -f 1-3,5-)" "2048* 1024 104857600 2 0 0 0"
    # --raw-grace shows the time of the end.
    [ "$left" -gt "$(($(date +%s) + 40 * 3600))" ] && [ "$left" -le "$(($(date +%s) + 48 * 3600 + 60))" ]
}
user_sees_itself() {
    same "$(as_alice bash -c "$(declare -f line); mnt=$mnt; line --user")" "2048 0 4096 0 2 0 20 0"
    same "$(as_alice bash -c "$(declare -f line); mnt=$mnt; line --group" | cut -d ' ' -f 1-3)" "2048* 1024 104857600"
}
# `quota` itself asks for the caller alone, unless root runs it: another program need not.
other_users_are_refused() {
    refused "" as_alice quota --user 1002
    refused "ermitted" quota --user --verbose 1001
}
limit_holds() {
    refused "Disk quota exceeded" as_alice dd if=/dev/zero of=$mnt/alice/three bs=1M count=3 conv=fsync status=none
    # The client wrote what it could: the limit to the byte.
    same "$(line --user --verbose 1001 | cut -d ' ' -f 3)" 4096
    [ "$(line --user --verbose 1001 | cut -d ' ' -f 1 | tr -d '*')" -le 4096 ]
    rm $mnt/alice/three
}
subdirectory_is_asked_for() { # version
    umount $mnt
    attach "$1" /work/alice
    same "$(line --user --verbose 1001)" "2048 0 4096 0 2 0 20 0"
    umount $mnt
    attach "$1" /work
}
snapshot_is_asked_for() { # version
    local name
    name=$(ls $mnt/.snapshot)
    umount -R $mnt
    attach "$1" "/work/.snapshot/$name"
    same "$(line --user --verbose 1001)" "2048 0 4096 0 2 0 20 0"
    umount $mnt
    attach "$1" /work
}

check port_is_registered port_is_registered
for version in 3 4.2; do
    check "$version.attach" attach $version /work
    check "$version.write" write_files
    for what in root_sees_a_user root_sees_a_group user_sees_itself limit_holds; do
        check "$version.$what" $what
    done
    check "$version.subdirectory" subdirectory_is_asked_for $version
    check "$version.snapshot" snapshot_is_asked_for $version
    umount -R $mnt
done
check squashed.attach attach 4.2 /squashed
check squashed.others other_users_are_refused

[ "$failures" -eq 0 ]
