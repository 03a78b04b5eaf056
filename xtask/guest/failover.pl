# Records that must not be lost. `write MOUNT BYTES` writes numbered records to two files of /mnt/MOUNT that it keeps open, in turn, each
# with fsync, until there is /tmp/stop. It locks the first bytes of one of them. It appends a line to /tmp/MOUNT.acknowledged for each:
# the milliseconds since boot, the file, the number of the record. `verify MOUNT` checks that all of them are there.
use strict;
use warnings;
use Errno qw(EAGAIN EBADF ECONNABORTED EPIPE);
use Fcntl;
use IO::Handle;

use constant { RECORD => 64, CLOCK_GETTIME => 228, CLOCK_BOOTTIME => 7, PAUSE_S => 0.03, AGAIN_S => 0.1, AGAIN_MAX => 600 };

my ($task, $mount, $locked_bytes) = @ARGV;
my @names = qw(locked other);

sub path { "/mnt/$mount/$mount.$_[0]" }
sub record { sprintf("%-" . (RECORD - 1) . "s\n", "$mount $_[0] record $_[1]") }

sub now_ms {
    my $time = pack("qq", 0, 0);
    syscall(CLOCK_GETTIME, CLOCK_BOOTTIME, $time) == 0 or die "clock_gettime: $!\n";
    my ($seconds, $nanoseconds) = unpack("qq", $time);
    return $seconds * 1000 + int($nanoseconds / 1e6);
}

# Linux's SMB client answers these to requests that it was about to send when the connection ended, on a hard mount too. Over the next
# connection it answers EBADF to an fsync until it has opened the file again.
my %again = map { $_ => 1 } EAGAIN, EBADF, ECONNABORTED, EPIPE;

sub persist {
    my ($what, $operation) = @_;
    for (0 .. AGAIN_MAX) {
        return if $operation->();
        die "$what: $!\n" unless $mount eq "cifs" && $again{ $! + 0 };
        print "retried $what: $!\n";
        select(undef, undef, undef, AGAIN_S);
    }
    die "$what: no end of retries: $!\n";
}

sub write_records {
    my %files;
    for my $name (@names) {
        sysopen($files{$name}, path($name), O_RDWR | O_CREAT | O_EXCL, 0644) or die path($name) . ": $!\n";
    }
    my $range = pack("s s x4 q q i x4", F_WRLCK, 0, 0, $locked_bytes, 0);
    fcntl($files{locked}, F_SETLK, $range) or die "lock: $!\n";
    open(my $acknowledged, ">", "/tmp/$mount.acknowledged") or die "acknowledged: $!\n";
    $acknowledged->autoflush(1);
    STDOUT->autoflush(1);
    for (my $number = 0; !-e "/tmp/stop"; $number++) {
        for my $name (@names) {
            my $file = $files{$name};
            persist("write", sub {
                sysseek($file, $number * RECORD, 0) or die "seek: $!\n";
                my $written = syswrite($file, record($name, $number));
                die "wrote $written bytes\n" if defined $written && $written != RECORD;
                return defined $written;
            });
            persist("fsync", sub { $file->sync });
            print $acknowledged now_ms() . " $name $number\n";
        }
        select(undef, undef, undef, PAUSE_S);
    }
    for my $name (@names) {
        persist("close", sub { close($files{$name}) });
    }
}

sub verify_records {
    my (%files, $count);
    for my $name (@names) {
        open($files{$name}, "<", path($name)) or die path($name) . ": $!\n";
    }
    open(my $acknowledged, "<", "/tmp/$mount.acknowledged") or die "acknowledged: $!\n";
    while (<$acknowledged>) {
        my (undef, $name, $number) = split;
        my ($file, $found) = ($files{$name}, "");
        seek($file, $number * RECORD, 0) or die "seek: $!\n";
        read($file, $found, RECORD);
        $found eq record($name, $number) or die path($name) . ": record $number is lost, found '$found'\n";
        $count++;
    }
    print "$count\n";
}

$task eq "write" ? write_records() : verify_records();
