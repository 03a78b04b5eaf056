# Makes the machine and runs the scripts in order; each leaves what it printed and its status beside it.
set -eu
ip link set lo up
for directory in /srv /mnt /var/lib; do
    mount -t tmpfs tmpfs $directory
done
export PATH=$SANDBOX/bin:$PATH HOME=$SANDBOX/here
unset PLIMSOLL_DATA PLIMSOLL_URL PLIMSOLL_TOKEN PLIMSOLL_CA
cd "$SANDBOX/here"
for script in "$SANDBOX"/scripts/*.sh; do
    status=0
    timeout --kill-after 5 "$SCRIPT_S_MAX" bash "$SANDBOX/step.sh" "$script" > "${script%.sh}.out" 2>&1 < /dev/null || status=$?
    echo $status > "${script%.sh}.status"
    if [ $status != 0 ] && [ "$ENDS_AT_FAILURE" ]; then
        break
    fi
done
