# A port of the guest's loopback that leads to a server: `relay.pl PORT SERVER SERVER_PORT LOG`. When a connection ends, LOG gets a line
# with the bytes that it has carried.
use strict;
use warnings;
use Socket;

my ($port, $server, $server_port, $log) = @ARGV;
# Nobody waits for those who relay.
$SIG{CHLD} = "IGNORE";

sub tcp { socket(my $socket, PF_INET, SOCK_STREAM, 0) or die "socket: $!\n"; return $socket; }

# Passes on what comes from either side until one of them ends.
sub carry {
    my @ends = @_;
    my $carried = 0;
    while (1) {
        my $ready = "";
        vec($ready, fileno($_), 1) = 1 for @ends;
        select($ready, undef, undef, undef);
        for my $from (0, 1) {
            next unless vec($ready, fileno($ends[$from]), 1);
            my $length = sysread($ends[$from], my $data, 1 << 18) or return $carried;
            $carried += $length;
            for (my $at = 0; $at < $length;) {
                $at += syswrite($ends[1 - $from], $data, $length - $at, $at) // return $carried;
            }
        }
    }
}

my $listener = tcp();
setsockopt($listener, SOL_SOCKET, SO_REUSEADDR, 1);
bind($listener, pack_sockaddr_in($port, INADDR_LOOPBACK)) or die "bind: $!\n";
listen($listener, 16) or die "listen: $!\n";
while (accept(my $client, $listener)) {
    next if fork;
    my $other = tcp();
    connect($other, pack_sockaddr_in($server_port, inet_aton($server))) or die "connect: $!\n";
    my $carried = carry($client, $other);
    open(my $file, ">>", $log) or die "open: $!\n";
    syswrite($file, "$carried\n");
    exit;
}
