# What the clients of four protocols see of one volume: `matrix CACHE`, every pair of them; `held`, each against files that are held
# over SMB; `random CACHE SEED OPERATIONS`, random reads, writes and truncations through all of them against a model.
#
# Every check prints `ok NAME` or `FAIL NAME why`; the exit status is the number of those that failed.
use strict;
use warnings;
use Errno;
use Fcntl qw(:DEFAULT :seek);
use POSIX ();

my ($task, @arguments) = @ARGV;
my @clients = qw(smb nfs3 nfs4.1 nfs4.2);
my ($failures, $cache) = (0, $arguments[0] // "");
$| = 1;
# Who logs in over SMB, and is the same over NFS.
$( = $ENV{ID};
$) = "$ENV{ID} $ENV{ID}";
$< = $> = $ENV{ID};

sub say_line { my ($uptime) = split " ", slurp("/proc/uptime"); print "$uptime @_\n"; }

sub check {
    my ($name, $test) = @_;
    local $SIG{ALRM} = sub { die "it took too long\n" };
    alarm 120;
    my $is_well = eval { $test->(); 1 };
    my $why = $@ =~ s/\n/|/gr;
    alarm 0;
    $failures++ unless $is_well;
    say_line($is_well ? "ok $name" : "FAIL $name: $why");
}

sub opened {
    my ($path, $flags) = @_;
    sysopen(my $file, $path, $flags, 0644) or die "open $path: $!\n";
    return $file;
}

sub slurp {
    my $file = opened($_[0], O_RDONLY);
    my ($all, $part) = ("", "");
    while (my $count = sysread($file, $part, 1 << 20) // die "read $_[0]: $!\n") { $all .= $part }
    return $all;
}

# Writes at an offset of a file, which is closed before this ends.
sub put {
    my ($path, $data, $offset, $flags) = @_;
    my $file = opened($path, O_WRONLY | O_CREAT | ($flags // 0));
    sysseek($file, $offset // 0, SEEK_SET) // die "seek $path: $!\n";
    (syswrite($file, $data) // die "write $path: $!\n") == length $data or die "write $path: short\n";
    close($file) or die "close $path: $!\n";
}

sub same {
    my ($found, $expected, $what) = @_;
    return if $found eq $expected;
    my $at = 0;
    $at++ while $at < length $found && substr($found, $at, 1) eq substr($expected, $at, 1);
    my ($lengths) = length($found) . " bytes for " . length($expected);
    die "$what: $lengths, other from byte $at: '" . substr($found, $at, 20) . "' for '" . substr($expected, $at, 20) . "'\n";
}

sub refused {
    my ($what, @verb_and_errors) = @_;
    my ($verb, @errors) = @verb_and_errors;
    die "$what was done\n" if $verb->();
    my $error = $! + 0;
    die "$what: $!\n" unless !@errors || grep { $_ == $error } @errors;
}

sub names { my ($path) = @_; opendir(my $dir, $path) or die "$path: $!\n"; return sort grep { !/^\.\.?$/ } readdir($dir); }

# An exclusive lock of a range, or its end; whether it was granted.
sub lock {
    my ($file, $type, $start, $length) = @_;
    return fcntl($file, F_SETLK, pack("s s x4 q q i x4", $type, SEEK_SET, $start, $length, 0));
}

# Does something in a process of its own; what gives its end, which must be a good one.
sub beside {
    my ($work) = @_;
    my $child = fork() // die "fork: $!\n";
    if (!$child) {
        alarm 0;
        my $is_well = eval { $work->(); 1 };
        print $@ unless $is_well;
        POSIX::_exit($is_well ? 0 : 1);
    }
    return sub { waitpid($child, 0); die "what was done beside it failed\n" if $?; };
}

sub nap { select(undef, undef, undef, $_[0]) }

# --- every pair: the one writes, the other reads -------------------------------------------------------------------------------

# Bytes, sizes and times.
sub contents {
    my ($one, $other) = @_;
    my $data = join "", map { chr(32 + $_ % 91) } 0 .. 99_999;
    put("$one/file", $data);
    same(slurp("$other/file"), $data, "what was written");
    # It is cached there now; the next who opens it sees what changes.
    put("$one/file", "changed", 5000);
    substr($data, 5000, 7) = "changed";
    same(slurp("$other/file"), $data, "what was written over it");
    put("$one/file", "end", 0, O_APPEND);
    $data .= "end";
    same(slurp("$other/file"), $data, "what was appended");
    truncate("$one/file", 777) or die "truncate: $!\n";
    same(slurp("$other/file"), substr($data, 0, 777), "what was cut off");
    truncate("$one/file", 5000) or die "truncate: $!\n";
    same(slurp("$other/file"), substr($data, 0, 777) . "\0" x 4223, "what was made longer");
    utime(1_000_000_000, 1_100_000_000, "$one/file") or die "utime: $!\n";
    same((stat "$other/file")[7], 5000, "the size");
    # With a lease the kernel's client of SMB keeps times too, and no lease is asked back because times are set (MS-FSA §2.1.5.15.2).
    return if $other =~ m{^/mnt/smb};
    same((stat "$other/file")[9], 1_100_000_000, "the time of the last write");
}

# What the client of SMB has written and not sent: those of NFS read no further than a file is long.
sub unsent {
    my ($one, $other) = @_;
    my $data = "unsent" x 1000;
    my $file = opened("$one/unsent", O_WRONLY | O_CREAT);
    (syswrite($file, $data) // die "write: $!\n") == length $data or die "write: short\n";
    same((stat "$other/unsent")[7], length $data, "the size");
    same(slurp("$other/unsent"), $data, "what was not sent");
    close($file) or die "close: $!\n";
}

sub names_under_an_open_file {
    my ($one, $other) = @_;
    put("$one/before", "the bytes");
    my $held = opened("$other/before", O_RDONLY);
    rename("$one/before", "$one/after") or die "rename: $!\n";
    sysread($held, my $data, 100) // die "read: $!\n";
    same($data, "the bytes", "what is open");
    # The kernel's client of SMB asks of a name that it has open by what it has open; listings ask for names.
    same(join(" ", names($other)), "after", "the names");
    same(slurp("$other/after"), "the bytes", "the new name");
    unlink("$one/after") or die "unlink: $!\n";
    close($held);
    # What SMB removes goes when nobody has it open any more, over NFS 4 either.
    nap(0.1) while names($other);
    refused("to open what was removed", sub { sysopen(my $gone, "$other/after", O_RDONLY) }, Errno::ENOENT, Errno::ESTALE);
}

# Ranges that the one locks are not the other's to lock.
sub locks {
    my ($one, $other) = @_;
    put("$one/locked", "0123456789");
    my ($first, $second) = (opened("$one/locked", O_RDWR), opened("$other/locked", O_RDWR));
    lock($first, F_WRLCK, 0, 4) or die "lock: $!\n";
    refused("to lock what is locked", sub { lock($second, F_WRLCK, 3, 4) }, Errno::EAGAIN, Errno::EACCES);
    lock($second, F_WRLCK, 4, 4) or die "lock of another range: $!\n";
    refused("to lock what is locked", sub { lock($first, F_WRLCK, 7, 1) }, Errno::EAGAIN, Errno::EACCES);
    lock($first, F_UNLCK, 0, 4) or die "unlock: $!\n";
    lock($second, F_WRLCK, 0, 4) or die "lock of what was unlocked: $!\n";
    close($second);
    close($first);
}

# Where one of them is SMB, what the one has locked is not the other's to write.
sub enforced_locks {
    my ($one, $other) = @_;
    put("$one/enforced", "0123456789");
    my $first = opened("$one/enforced", O_RDWR);
    lock($first, F_WRLCK, 0, 4) or die "lock: $!\n";
    # Who comes over version 3 is put off, the others are refused at once.
    my $is_put_off = $other =~ m{^/mnt/nfs3};
    my $ended = beside(sub {
        my $file = opened("$other/enforced", O_WRONLY);
        my $written = syswrite($file, "X") && close($file);
        die "it was written\n" if $written && !$is_put_off;
        die "it was not written: $!\n" if !$written && $is_put_off;
    });
    $is_put_off ? nap(1) : $ended->();
    # By the same open file: to SMB, other files that are open are others.
    my $found = "";
    sysread($first, $found, 100) // ($found = "read: $!");
    # Before anything else: who is put off waits for it, and so does all that it has open.
    close($first);
    $ended->() if $is_put_off;
    same($found, "0123456789", "what is locked");
    same(substr(slurp("$one/enforced"), 0, 1), $is_put_off ? "X" : "0", "what was locked");
}

sub names_of_all_kinds {
    my ($one, $other) = @_;
    my @names = ("x" x 255, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x9f", 'a:b*c?"<>|', "dot.", "space ", "CON", "a~1");
    mkdir("$one/names") or die "mkdir: $!\n";
    put("$one/names/$_", $_) for @names;
    same(join("|", names("$other/names")), join("|", sort @names), "the names");
    same(slurp("$other/names/$_"), $_, "what is in $_") for @names;
    unlink("$other/names/$_") or die "unlink $_: $!\n" for @names;
    same(join("|", names("$one/names")), "", "what is left");
    rmdir("$other/names") or die "rmdir: $!\n";
}

sub case {
    my ($one, $other) = @_;
    put("$one/MixedCase", "mixed");
    if ($other =~ m{^/mnt/smb}) { same(slurp("$other/mixedCASE"), "mixed", "the name in another case") }
    else { refused("to find the name in another case", sub { -e "$other/mixedCASE" }) }
    # Those that differ in case alone are two files, and each is found as it is spelled.
    if ($one !~ m{^/mnt/smb}) {
        put("$one/mixedcase", "small");
        same(slurp("$other/MixedCase") . slurp("$other/mixedcase"), "mixedsmall", "the two");
        unlink("$one/mixedcase") or die "unlink: $!\n";
    }
    unlink("$one/MixedCase") or die "unlink: $!\n";
}

sub matrix {
    for my $one (@clients) {
        for my $other (grep { $_ ne $one } @clients) {
            # What the client of SMB keeps is nothing to those of NFS among each other.
            next if $cache eq "none" && "$one$other" !~ /smb/;
            next if $cache eq "none" && $ENV{BRIEF} && "$one$other" !~ /nfs4\.2/;
            my $dir = "$one-$other-$cache";
            mkdir "/mnt/$one/$dir" or die "mkdir $dir: $!\n";
            my @pair = ("/mnt/$one/$dir", "/mnt/$other/$dir");
            my $name = "$cache.$one-$other";
            check("$name.contents", sub { contents(@pair) });
            check("$name.unsent", sub { unsent(@pair) }) if $one eq "smb";
            check("$name.names", sub { names_under_an_open_file(map { mkdir("$pair[0]/n"); "$_/n" } @pair) });
            check("$name.locks", sub { locks(@pair) });
            check("$name.enforced", sub { enforced_locks(@pair) }) if $name =~ /smb/;
            check("$name.kinds", sub { names_of_all_kinds(@pair) });
            check("$name.case", sub { case(@pair) });
        }
    }
}

# --- what a client of SMB on the host holds ------------------------------------------------------------------------------------

sub held {
    print "PLIMSOLL-GUEST-MARK hold\n";
    my @nfs = grep { /nfs/ } @clients;
    check("held", sub { nap(0.2) until -e "/mnt/nfs4.2/held" });
    for my $client (grep { $_ ne "nfs3" } @clients) {
        my $mnt = "/mnt/$client";
        check("held.$client.denied", sub { refused("to open it", sub { sysopen(my $file, "$mnt/denied", O_RDONLY) }) });
        check("held.$client.written", sub { refused("to open it", sub { sysopen(my $file, "$mnt/readable", O_WRONLY) }) });
        check("held.$client.readable", sub { same(slurp("$mnt/readable"), "readable", "what may be read") });
    }
    for my $client (@clients) {
        check("held.$client.locked", sub {
            my $file = opened("/mnt/$client/locked", O_RDWR);
            refused("to lock it", sub { lock($file, F_WRLCK, 2, 1) }, Errno::EAGAIN, Errno::EACCES);
            lock($file, F_WRLCK, 4, 1) or die "lock: $!\n";
            lock($file, F_UNLCK, 4, 1) or die "unlock: $!\n";
        });
    }
    # Clients of version 3 ask again until they may.
    my @waiting;
    check("held.nfs3.waits", sub {
        push @waiting, beside(sub { same(slurp("/mnt/nfs3/denied"), "denied", "what was denied") });
        push @waiting, beside(sub { put("/mnt/nfs3/readable", "R") });
        nap(2);
        same(slurp("/mnt/nfs4.1/readable"), "readable", "what is shared with those who read");
    });
    check("held.doomed", sub { -e "/mnt/$_/doomed" or die "$_: $!\n" for @nfs });
    check("held.release", sub {
        put("/mnt/nfs3/release", "");
        $_->() for @waiting;
        nap(0.2) while -e "/mnt/nfs4.1/doomed";
        same(slurp("/mnt/smb/readable"), "Readable", "what was written at last");
    });
}

# --- random operations through all of them -------------------------------------------------------------------------------------

sub random {
    my ($seed, $operations) = @arguments[1, 2];
    srand($seed);
    my ($bytes_max, $model, %done) = (200_000, "");
    my $path = "random-$cache";
    put("/mnt/smb/$path", "");
    check("random.$cache.seed-$seed", sub {
        alarm 400;
        for my $number (1 .. $operations) {
            my $client = $clients[rand @clients];
            my $file = "/mnt/$client/$path";
            # A short run has each kind, too.
            my $kind = (0, 0.45, 1)[$number - 1] // rand;
            if ($kind < 0.4) {
                my ($at, $length) = (int rand $bytes_max, 1 + int rand 30_000);
                my $data = chr(33 + $number % 90) x $length;
                put($file, $data, $at);
                $model .= "\0" x ($at - length $model) if $at > length $model;
                substr($model, $at, $length < length($model) - $at ? $length : length($model) - $at) = $data;
                $done{write}++;
            }
            elsif ($kind < 0.5) {
                my $size = int rand $bytes_max;
                truncate($file, $size) or die "$number: truncate: $!\n";
                $model = substr($model . "\0" x $bytes_max, 0, $size);
                $done{truncate}++;
            }
            else {
                same(slurp($file), $model, "operation $number, by $client");
                $done{read}++;
            }
        }
        for my $client (@clients) { same(slurp("/mnt/$client/$path"), $model, "at the end, by $client") }
        die "not every kind of operation\n" unless 3 == keys %done;
    });
}

my %tasks = (matrix => \&matrix, held => \&held, random => \&random);
($tasks{$task} // die "no task $task\n")->();
exit($failures > 100 ? 100 : $failures);
