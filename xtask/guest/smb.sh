# The kernel's SMB client at the share of a server on the host, by each dialect, signed and encrypted.
set -e
modprobe cifs
mkdir -p /mnt/share
head -c 9000001 /dev/urandom > /tmp/data

mounted() {
    mount -i -t cifs "//$HOST/$SHARE" /mnt/share -o "ip=$HOST,port=$PORT,username=$NAME,password=$PASSWORD,$1"
}

for options in vers=3.1.1 vers=3.0 vers=2.1 vers=3.1.1,seal vers=3.0,seal vers=3.1.1,cache=none vers=3.1.1,nosharesock,actimeo=0; do
    echo "smb: $options"
    mounted "$options"
    cd /mnt/share
    mkdir d
    cp /tmp/data d/data
    mv d/data d/Moved
    [ "$(ls d)" = Moved ]
    echo more >> d/Moved
    truncate -s 12345 d/short
    for number in $(seq 40); do echo "$number" > "d/n$number"; done
    [ "$(ls d | wc -l)" = 42 ]
    cd /
    umount /mnt/share
    # What is read now is the server's.
    mounted "$options"
    head -c 9000001 /mnt/share/d/Moved | cmp - /tmp/data
    [ "$(tail -c 5 /mnt/share/d/Moved)" = more ]
    [ "$(stat -c %s /mnt/share/d/short)" = 12345 ]
    [ "$(cat /mnt/share/d/n17)" = 17 ]
    rm -r /mnt/share/d
    [ -z "$(ls /mnt/share)" ]
    umount /mnt/share
done

echo "smb: a wrong password"
if PASSWORD=another mounted vers=3.1.1; then exit 1; fi
echo "smb: done"
