# The kernel's clients of NFS and SMB in snapshots, while the live files change.
#
# Parameters (environment): HOST; NAME and PASSWORD of the user; PLACES, each a file system of the service's data with its
# ports of NFS and SMB and versions of NFS, like xfs:2049:445:3,4.2. Each place has the volumes /work, and /listed, whose root
# lists `.snapshot`. At `PLIMSOLL-GUEST-MARK create xfs work` the host makes a snapshot with the time in its name, at
# `delete xfs work` it deletes it.
# Every check prints `ok NAME` or `FAIL NAME why`; the exit status is 1 if any failed.

. /job/checks
# The script's own output, for marks from within checks.
exec 3>&1
mnt=/tmp/work
mkdir -p $mnt

attach() { # version
    local options="timeo=100,retrans=1,hard,proto=tcp,vers=$1,port=$PORT${more:-}"
    [ "$1" != 3 ] || options="$options,nolock,mountproto=tcp,mountvers=3,mountport=$PORT"
    timeout 60 mount -t nfs -o "$options" "$HOST:/$volume" $mnt
}

# Files of the time of the snapshot, and what their names say.
prepare() {
    rm -rf $mnt/tree
    mkdir -p $mnt/tree/sub/deep
    echo "as it was" >$mnt/tree/file
    ln $mnt/tree/file $mnt/tree/sub/link
    ln -s file $mnt/tree/symlink
    head -c 3000000 /dev/urandom >$mnt/tree/big
    cp $mnt/tree/big /tmp/big
    for number in $(seq 200); do echo "$number" >$mnt/tree/sub/deep/n$number; done
    sync
}

# The name of the snapshot, once it is there: a client that has seen none looks again.
snapshot() {
    for _ in $(seq 100); do
        set -- $mnt/.snapshot/manual-*
        [ ! -d "$1" ] || { basename "$1"; return; }
        sleep 0.2
    done
    echo "no snapshot in $(ls $mnt/.snapshot)"
    return 1
}

make_snapshot() {
    mark "create $place $volume" >&3
    snapshot
}

change_live_files() {
    echo "changed" >$mnt/tree/file
    dd if=/dev/zero of=$mnt/tree/big bs=100k seek=7 count=3 conv=notrunc status=none
    rm $mnt/tree/sub/deep/n1 $mnt/tree/sub/deep/n2
    mv $mnt/tree/sub/deep $mnt/tree/moved
    echo young >$mnt/tree/young
    sync
}

is_as_it_was() { # directory of the tree
    same "$(cat "$1/file")" "as it was"
    same "$(cat "$1/symlink")" "as it was"
    cmp "$1/big" /tmp/big
    same "$(ls "$1/sub/deep" | wc -l)" 200
    same "$(cat "$1/sub/deep/n2")" 2
    absent "$1/young"
    absent "$1/moved"
}

reads_while_a_writer_runs() {
    (
        while [ ! -e /tmp/stop ]; do
            dd if=/dev/urandom of=$mnt/tree/big bs=64k seek=$((RANDOM % 40)) count=2 conv=notrunc,fsync status=none
        done
    ) &
    local writer=$!
    for _ in 1 2 3; do
        drop_caches
        is_as_it_was "$past/tree"
    done
    touch /tmp/stop
    wait $writer
    rm /tmp/stop
}

below_a_directory() { is_as_it_was "$mnt/tree/.snapshot/$made"; }
is_listed_in_its_directory_alone() {
    same "$(ls -a $mnt | grep snapshot)" ""
    same "$(ls $mnt/.snapshot)" "$made"
}
hard_links_are_one_file() {
    same "$(stat -c '%i %h' "$past/tree/file")" "$(stat -c '%i %h' "$past/tree/sub/link")"
    same "$(stat -c %h "$past/tree/file")" 2
    tar -C "$past/tree" -cf /tmp/past.tar .
    tar -tvf /tmp/past.tar | grep -q "link to"
}
is_another_file_system() {
    [ "$(stat -c %d "$past/tree")" != "$(stat -c %d $mnt/tree)" ]
    same "$(stat -c %i "$past/tree/symlink")" "$(stat -c %i $mnt/tree/symlink)"
}
listing_has_attributes() { # version
    # A client that knows no entry yet asks for attributes with the names.
    local again=/tmp/again
    mkdir -p $again
    mnt=$again more=,nosharecache attach "$1"
    ls -l $again/.snapshot >/tmp/listed 2>/tmp/why
    same "$(cat /tmp/why)" ""
    same "$(tail -n 1 /tmp/listed | awk '{ print $1, $NF }')" "$(stat -c %A $again) $made"
    same "$(find $again/.snapshot -maxdepth 1 -type d | wc -l)" 2
    ls -lR $again/.snapshot | grep -q ' big$'
    umount -R $again
}
find_stays_outside_unasked() {
    # Asked by name: without -xdev it goes in, and sees no loop.
    find $mnt/.snapshot -xdev -name file >/tmp/found 2>&1
    same "$(cat /tmp/found)" ""
    find $mnt/.snapshot -name file >/tmp/found 2>&1
    same "$(cat /tmp/found)" "$past/tree/file"
    find $mnt -name file >/tmp/found 2>&1
    same "$(cat /tmp/found)" "$mnt/tree/file"
}
du_counts_live_files_alone() { [ "$(du -sx $mnt | cut -f 1)" -lt "$(($(du -s $mnt/tree | cut -f 1) + 100))" ]; }
nothing_in_it_changes() {
    refused "Read-only file system" touch "$past/new"
    refused "Read-only file system" rm "$past/tree/file"
    refused "Read-only file system" mkdir "$past/tree/new"
    refused "Read-only file system" chmod 600 "$past/tree/file"
    # Over NFSv3 the client asks for the right to write first, and has none.
    refused "" sh -c "echo x >'$past/tree/file'"
}
whole_mount_can_be_changed() {
    chown -R 1000:1000 $mnt
    chmod -R u+w $mnt
    rm -rf $mnt/tree
    is_as_it_was "$past/tree"
    # Restore.
    cp -a "$past/tree" $mnt/tree
    is_as_it_was $mnt/tree
}
mounted_by_path() { # version
    mkdir -p /tmp/past
    local options="proto=tcp,vers=$1,port=$PORT,ro"
    [ "$1" != 3 ] || options="$options,nolock,mountproto=tcp,mountvers=3,mountport=$PORT"
    timeout 60 mount -t nfs -o "$options" "$HOST:/work/.snapshot/$made" /tmp/past
    is_as_it_was /tmp/past/tree
    umount /tmp/past
}
stale_after_deletion_alone() {
    exec 4<"$past/tree/big"
    same "$(dd bs=1 count=4 status=none <&4 | wc -c)" 4
    mark "delete $place $volume" >&3
    for _ in $(seq 100); do
        drop_caches
        cat "$past/tree/big" >/dev/null 2>/tmp/why || break
        sleep 0.2
    done
    exec 4<&-
    grep -q "Stale file handle\|No such file" /tmp/why
    absent "$mnt/.snapshot/$made"
    is_as_it_was $mnt/tree
}

over_nfs() { # version
    volume=work
    local name="$place.$1"
    check "$name.attach" attach "$1"
    check "$name.prepare" prepare
    check "$name.create" make_snapshot
    made=$(snapshot)
    past=$mnt/.snapshot/$made
    check "$name.change" change_live_files
    check "$name.read" is_as_it_was "$past/tree"
    for what in below_a_directory is_listed_in_its_directory_alone hard_links_are_one_file is_another_file_system \
        find_stays_outside_unasked du_counts_live_files_alone nothing_in_it_changes reads_while_a_writer_runs \
        whole_mount_can_be_changed; do
        check "$name.$what" $what
    done
    check "$name.listing_has_attributes" listing_has_attributes "$1"
    check "$name.mounted_by_path" mounted_by_path "$1"
    check "$name.stale_after_deletion_alone" stale_after_deletion_alone
    umount -R $mnt
}

# A volume whose root lists `.snapshot`: programs find it there without being asked.

is_listed_in_the_root_alone() {
    ls -a $mnt | grep -qx .snapshot
    same "$(ls -a $mnt/tree | grep snapshot)" ""
}
find_xdev_stays_outside() {
    find $mnt -xdev -name file >/tmp/found 2>/tmp/why
    same "$(cat /tmp/found)" "$mnt/tree/file"
    same "$(cat /tmp/why)" ""
    # Without -xdev it goes in, and sees no loop.
    same "$(find $mnt -name file 2>&1 | sort)" "$(printf '%s\n' "$past/tree/file" "$mnt/tree/file")"
}
du_x_counts_live_files_alone() {
    local live
    live=$(du -s $mnt/tree | cut -f 1)
    [ "$(du -sx $mnt | cut -f 1)" -lt $((live + 100)) ]
    # Without -x the snapshot counts too.
    [ "$(du -s $mnt | cut -f 1)" -gt $((live + 2500)) ]
}
rsync_x_copies_live_files_alone() {
    rm -rf /tmp/copy
    rsync -axHX $mnt/ /tmp/copy/
    same "$(cat /tmp/copy/tree/file)" "changed"
    # At most the places of the snapshots, as empty directories.
    same "$(find /tmp/copy/.snapshot ! -type d 2>/dev/null)" ""
    absent "/tmp/copy/.snapshot/$made/tree"
    rm -rf /tmp/copy
}
# As the guide says: they report each file of the snapshots, and change all live files.
chown_changes_live_files_alone() {
    local owner
    owner=$(stat -c %u "$past/tree/big")
    refused "Read-only file system" chown -R 1234:1234 $mnt
    chown -R 1234:1234 $mnt 2>/tmp/why || true
    same "$(grep -v "Read-only file system" /tmp/why)" ""
    same "$(find $mnt/tree ! -uid 1234 | wc -l)" 0
    same "$(stat -c %u "$past/tree/big")" "$owner"
}
rm_removes_live_files_alone() {
    shopt -s dotglob
    refused "Read-only file system" rm -rf $mnt/*
    same "$(ls $mnt)" ""
    is_as_it_was "$past/tree"
}

listed_over_nfs() { # version
    volume=listed
    local name="$place.$1.listed"
    check "$name.attach" attach "$1"
    check "$name.prepare" prepare
    check "$name.create" make_snapshot
    made=$(snapshot)
    past=$mnt/.snapshot/$made
    check "$name.change" change_live_files
    for what in is_listed_in_the_root_alone find_xdev_stays_outside du_x_counts_live_files_alone \
        rsync_x_copies_live_files_alone chown_changes_live_files_alone rm_removes_live_files_alone; do
        check "$name.$what" $what
    done
    umount -R $mnt
    mark "delete $place $volume"
}

attach_smb() { # options
    mount -i -t cifs "//$HOST/work" $mnt -o \
        "ip=$HOST,port=$SMB_PORT,username=$NAME,password=$PASSWORD,vers=3.1.1,cache=none,mfsymlinks$1"
}
over_smb_by_time() {
    umount $mnt
    # manual-2026-11-30-010203 was made at that second, in UTC. The kernel wants the time of Windows: units of 100 ns since 1601.
    local seconds
    seconds=$(date -u -d "$(echo "$made" | sed 's/manual-\(....-..-..\)-\(..\)\(..\)\(..\)/\1 \2:\3:\4/')" +%s)
    local time=$(((seconds + 11644473600) * 10000000))
    attach_smb ",ro,snapshot=$time"
    same "$(cat $mnt/tree/file)" "as it was"
    cmp $mnt/tree/big /tmp/big
    umount $mnt
}
over_smb_by_name() {
    same "$(cat "$mnt/~snapshot/$made/tree/file")" "as it was"
    cmp "$mnt/tree/~snapshot/$made/big" /tmp/big
    same "$(cat $mnt/tree/file)" "changed"
    refused "" rm "$mnt/~snapshot/$made/tree/file"
    refused "" sh -c "echo x >'$mnt/~snapshot/$made/tree/file'"
    same "$(cat "$mnt/~snapshot/$made/tree/file")" "as it was"
}

over_smb() {
    volume=work
    check "$place.smb.attach" attach 3
    check "$place.smb.prepare" prepare
    check "$place.smb.create" make_snapshot
    made=$(snapshot)
    check "$place.smb.change" change_live_files
    umount $mnt
    check "$place.smb.mount" attach_smb
    check "$place.smb.by_name" over_smb_by_name
    check "$place.smb.by_time" over_smb_by_time
}

modprobe cifs
for at in $PLACES; do
    IFS=: read -r place PORT SMB_PORT versions <<<"$at"
    for version in ${versions//,/ }; do
        over_nfs "$version"
        listed_over_nfs "$version"
    done
    over_smb
done

[ "$failures" -eq 0 ]
