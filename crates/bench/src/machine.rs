//! The machine of a generator, and its utilization.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use report::result::Machine;

pub fn machine_facts() -> Machine {
    let uname = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    Machine {
        name: "local".to_owned(),
        host: text(uname.nodename()),
        kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
        cpus: std::thread::available_parallelism().map_or(1, Into::into),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Machine::default()
    }
}

/// The interface towards `server`, with its speed in 10^6 bits per second if known. Without a remote server:
/// the fastest active interface.
pub fn interface(server: Option<IpAddr>) -> Option<(String, Option<u64>)> {
    let with_speed = |name: String| {
        let speed = read_number(&name, "speed").filter(|&speed| speed > 0);
        (name, speed)
    };
    if let Some(name) = server.and_then(interface_to) {
        return Some(with_speed(name));
    }
    let names =
        fs::read_dir("/sys/class/net").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_up = |name: &String| {
        let state = fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
        name != "lo" && state.is_ok_and(|state| matches!(state.trim(), "up" | "unknown"))
    };
    names.filter(is_up).map(with_speed).max_by_key(|(_, speed)| *speed)
}

#[derive(Debug)]
pub(crate) struct UsageSampler {
    begun: Instant,
    processors: Option<Processors>,
    network: Option<Network>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Processors {
    busy: u64,
    all: u64,
}

#[derive(Debug)]
struct Network {
    interface: String,
    /// Bytes per second in each direction.
    speed: f64,
    received: u64,
    sent: u64,
}

impl UsageSampler {
    pub(crate) fn start(target: IpAddr) -> Self {
        let network = interface_to(target).and_then(Network::look);
        Self { begun: Instant::now(), processors: Processors::look(), network }
    }

    /// The busy share of all processors since the start, and the share of the interface's speed in its busier
    /// direction. The second is `None` if the target is on this machine or the speed is unknown.
    pub(crate) fn finish(&self) -> (f64, Option<f64>) {
        let processors = self.processors.zip(Processors::look());
        let cpu_share = processors.map_or(0.0, |(before, after)| after.busy_since(before));
        let seconds = self.begun.elapsed().as_secs_f64();
        (cpu_share, self.network.as_ref().and_then(|network| network.share(seconds)))
    }
}

impl Processors {
    fn look() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal
    /// (proc(5)). The later columns are included in user and nice.
    fn parse(stat: &str) -> Option<Self> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = ticks.split_ascii_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        let all = ticks.iter().sum::<u64>();
        Some(Self { busy: all - idle, all })
    }

    fn busy_since(self, before: Self) -> f64 {
        // Idle time sometimes decreases (proc(5)).
        let [busy, all] =
            [self.busy.saturating_sub(before.busy), self.all.saturating_sub(before.all)].map(|n| n as f64);
        if all > 0.0 { (busy / all).min(1.0) } else { 0.0 }
    }
}

impl Network {
    /// `None` if the speed is unknown, as for loopback and many virtual machines.
    fn look(interface: String) -> Option<Self> {
        let megabits = read_number(&interface, "speed").filter(|&speed| speed > 0)?;
        let received = read_number(&interface, "statistics/rx_bytes")?;
        let sent = read_number(&interface, "statistics/tx_bytes")?;
        Some(Self { interface, speed: megabits as f64 * 125_000.0, received, sent })
    }

    fn share(&self, seconds: f64) -> Option<f64> {
        let now = Self::look(self.interface.clone())?;
        let bytes = now.received.saturating_sub(self.received).max(now.sent.saturating_sub(self.sent));
        Some(bytes as f64 / (self.speed * seconds.max(1e-9)))
    }
}

/// Reads a number from sysfs. An unknown speed is -1, or an error.
fn read_number(interface: &str, what: &str) -> Option<u64> {
    fs::read_to_string(format!("/sys/class/net/{interface}/{what}")).ok()?.trim().parse().ok()
}

fn interface_to(target: IpAddr) -> Option<String> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // A datagram socket sends nothing here; the kernel only chooses the route.
    socket.connect((target, 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    if own == target || target.is_loopback() {
        return None;
    }
    match (target, own) {
        (IpAddr::V4(target), _) => route(&fs::read_to_string("/proc/net/route").ok()?, target),
        (_, IpAddr::V6(own)) => address_of(&fs::read_to_string("/proc/net/if_inet6").ok()?, own),
        _ => None,
    }
}

/// The interface of the narrowest route to `target`; the least metric breaks ties. Lines contain interface,
/// destination, gateway, flags, two counts, metric and mask. Addresses are hexadecimal, last byte first.
fn route(table: &str, target: Ipv4Addr) -> Option<String> {
    let target = target.to_bits();
    let fitting = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let address = |field: &str| u32::from_str_radix(field, 16).ok().map(u32::swap_bytes);
        let (destination, mask) = (address(fields.get(1)?)?, address(fields.get(7)?)?);
        let metric: u32 = fields.get(6)?.parse().ok()?;
        (target & mask == destination)
            .then(|| ((mask.count_ones(), std::cmp::Reverse(metric)), fields[0].to_owned()))
    });
    // The kernel uses the first of equal routes; any has the same interface speed.
    fitting.collect::<BTreeMap<_, _>>().pop_last().map(|(_, interface)| interface)
}

/// Lines contain address, index, prefix, scope, flags and interface.
fn address_of(table: &str, own: Ipv6Addr) -> Option<String> {
    let wanted = format!("{:032x}", own.to_bits());
    let line = table.lines().find(|line| line.starts_with(&wanted))?;
    line.split_ascii_whitespace().nth(5).map(str::to_owned)
}

/// Whether a connection to the address stays on this host.
pub fn co_located(address: SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let own = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    address.ip().is_loopback() || own.is_ok_and(|own| own.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn facts_name_this_machine() {
        let facts = machine_facts();
        assert_eq!(facts.host, fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim());
        assert!(facts.kernel.starts_with("Linux ") && facts.cpus > 0, "{facts:?}");
    }

    #[test]
    fn processors_are_busy_but_for_idle_and_waiting() {
        let before = Processors::parse("cpu  10 20 30 100 40 5 6 7 3 1\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(before, Processors { busy: 78, all: 218 });
        let after = Processors::parse("cpu  40 20 30 160 50 5 6 7 33 1\n").unwrap();
        assert!((after.busy_since(before) - 0.3).abs() < 1e-9);
        assert_eq!(before.busy_since(after), 0.0);
        assert_eq!(Processors::parse("cpu  1 2\n"), None);
    }

    #[test]
    fn narrowest_route_is_taken() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                     wlan0\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
                     eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
                     eth2\t0001000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        for (target, interface) in [([10, 0, 1, 9], "eth2"), ([10, 9, 1, 9], "eth1"), ([8, 8, 8, 8], "eth0")]
        {
            assert_eq!(route(table, target.into()).as_deref(), Some(interface), "{target:?}");
        }
        assert_eq!(route("Iface\n", [8, 8, 8, 8].into()), None);
        let table = "fe800000000000000000000000000001 02 40 20 80     eth0\n\
                     20010db8000000000000000000000007 03 40 00 80     eth1\n";
        assert_eq!(address_of(table, "2001:db8::7".parse().unwrap()).as_deref(), Some("eth1"));
    }

    #[test]
    fn busy_machine_is_seen() {
        let one =
            1.0 / fs::read_to_string("/proc/cpuinfo").unwrap().matches("processor\t").count().max(1) as f64;
        // In a moment in which the machine stands still it is not busy.
        let mut shares: Vec<f64> = Vec::new();
        while shares.len() < 5 && shares.last().is_none_or(|share| *share <= one / 2.0) {
            let usage = UsageSampler::start(Ipv4Addr::LOCALHOST.into());
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(200) {
                std::hint::spin_loop();
            }
            let (cpu_share, network_share) = usage.finish();
            assert!(cpu_share <= 1.0, "{cpu_share}");
            assert_eq!(network_share, None, "loopback has no speed");
            shares.push(cpu_share);
        }
        assert!(shares.last().is_some_and(|share| *share > one / 2.0), "{shares:?}");
    }
}
