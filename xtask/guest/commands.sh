# Commands of the host, and locks. The host's port CONTROL receives NAME, and then an answer to each line that it sends: the status
# of the command, and the end of its output. Lines in between that begin with `event` report on the background.

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

serve_commands() {
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
}
