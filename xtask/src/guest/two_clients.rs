//! Two guests with different kernels at one server, each a host of its own: locks between them, over a crash of the server, and
//! after a client was cut off.
//!
//! Server and guests are in a network namespace of their own, so that NFS has port 2049 and the port mapper port 111, as locks of
//! version 3 need, and each guest has an address of its own. The host tells the guests what to do, in `xtask/guest/two-clients.sh`, over a
//! connection to each, and so has one clock for both.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::image::{Image, Suite};
use super::machine::{Guest, HOST_ADDRESS, OTHER_ADDRESS, Running};
use crate::process::{self, Process};
use crate::server::{Endpoint, PLIMSOLL_EXPORT, Server, plimsoll_command};

const SCRIPT: &str = include_str!("../../guest/two-clients.sh");
const PORT: u16 = 2049;
/// The interface of each guest, its address at the host and its network.
const NETWORKS: [(&str, &str, u8); 2] = [("tap0", HOST_ADDRESS, 2), ("tap1", OTHER_ADDRESS, 3)];
const LEASE: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(15);
const OUTAGE: Duration = Duration::from_secs(2);
const BOOT_MAX: Duration = Duration::from_secs(120);
/// What a guest is told is done after this.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// From the release of a lock to its grant to who waits for it.
const GRANT_MAX: Duration = Duration::from_secs(1);
/// How long nobody may get a lock that is held. A client that is not told of its release asks for it 1, 3 and 7 seconds after the
/// first time, or later.
const QUIET: Duration = Duration::from_secs(4);
const HELD_BY_OTHER: &str = "Resource temporarily unavailable";

/// `guest two-clients`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// All is killed after so many seconds.
    #[arg(long, default_value_t = 500)]
    timeout_s: u64,
    /// The network namespace is there: what this command says to itself.
    #[arg(long, hide = true)]
    in_namespace: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let images = [Image::build(Suite::Bookworm)?, Image::build(Suite::Trixie)?];
    if args.in_namespace {
        return run_in_namespace(args, &images);
    }
    let own = std::env::current_exe()?.display().to_string();
    let binary = process::binary(args.binary.as_deref()).display().to_string();
    let timeout = args.timeout_s.to_string();
    let argv = ["unshare", "--net", &own, "guest", "two-clients", "--in-namespace", "--binary", &binary];
    let argv = argv.into_iter().chain(["--timeout-s", &timeout]).map(String::from).collect::<Vec<_>>();
    let mut inside = Process::start(&argv, Stdio::inherit(), Stdio::inherit())?;
    let status = inside.wait(Duration::from_secs(args.timeout_s + 60))?;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

fn run_in_namespace(args: &Args, images: &[Image; 2]) -> anyhow::Result<()> {
    let work = process::target_dir().join("guest").join("two-clients");
    process::empty_dir(&work)?;
    make_networks(&work)?;
    let mut server = server(args, &work)?;
    server.start()?;
    let control = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let port = control.local_addr()?.port();
    let within = Duration::from_secs(args.timeout_s);
    let start = |index: usize, name: &str| {
        let (interface, host, network) = NETWORKS[index];
        let guest = Guest::new(&images[index]).cpus(1).tap(interface);
        let guest = guest.set("NAME", name).set("NETWORK", network).set("HOST", host);
        guest.set("CONTROL", port).set("EXPORT", PLIMSOLL_EXPORT).start(SCRIPT, within)
    };
    let [one, two] = [start(0, "one")?, start(1, "two")?];
    let result = accept(&control).and_then(|[mut one, mut two]| {
        let mut scene = Clients { one: &mut one, two: &mut two };
        scene.run(&mut server, &work)
    });
    // The guests end when nobody tells them anything any more; what they said is of use if this failed.
    let outcomes: Vec<_> = [one, two].map(Running::finish).into_iter().collect();
    result?;
    for outcome in outcomes {
        outcome?.require_success()?;
    }
    server.stop()
}

fn make_networks(work: &Path) -> anyhow::Result<()> {
    let log = work.join("ip.log");
    let ip = |line: &str| {
        let argv: Vec<&str> = ["ip"].into_iter().chain(line.split(' ')).collect();
        process::run(&argv, &log, Duration::from_secs(10))
    };
    ip("link set lo up")?;
    for (interface, address, _) in NETWORKS {
        ip(&format!("tuntap add dev {interface} mode tap"))?;
        ip(&format!("address add {address}/24 dev {interface}"))?;
        ip(&format!("link set {interface} up"))?;
    }
    Ok(())
}

fn server(args: &Args, work: &Path) -> anyhow::Result<Server> {
    let directory = work.join("export");
    std::fs::create_dir(&directory)?;
    let binary = process::binary(args.binary.as_deref());
    let state = work.join("state");
    let [binary, directory, state] =
        [&binary, &directory, &state].map(|path| path.to_str().context("a path that is not UTF-8"));
    let mut argv = plimsoll_command(binary?, directory?, state?, &format!("0.0.0.0:{PORT}"));
    let seconds = |time: Duration| time.as_secs().to_string();
    argv.extend(["--lease".to_owned(), seconds(LEASE), "--grace-period".to_owned(), seconds(GRACE)]);
    Ok(Server::of(argv, Endpoint::loopback(PORT, PLIMSOLL_EXPORT), work))
}

/// Waits for both guests, each of which says its name.
fn accept(control: &TcpListener) -> anyhow::Result<[Client; 2]> {
    control.set_nonblocking(true)?;
    let deadline = Instant::now() + BOOT_MAX;
    let (mut one, mut two) = (None, None);
    while one.is_none() || two.is_none() {
        ensure!(Instant::now() < deadline, "the guests are not up");
        match control.accept() {
            Ok((stream, _)) => {
                let client = Client::new(stream)?;
                let slot = if client.name == "one" { &mut one } else { &mut two };
                *slot = Some(client);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok([one.context("no guest one")?, two.context("no guest two")?])
}

/// A guest that is told what to do.
struct Client {
    name: String,
    stream: BufReader<TcpStream>,
    /// What it said of things in the background, and when.
    events: Vec<(String, Instant)>,
}

/// What a guest answers: the command's status and the end of what it printed.
struct Answer {
    status: i32,
    text: String,
}

impl Client {
    fn new(stream: TcpStream) -> anyhow::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let (name, events) = Default::default();
        let mut client = Self { name, stream: BufReader::new(stream), events };
        client.name = client.line()?.context("a guest without a name")?;
        Ok(client)
    }

    /// The next line, unless it is an event, which is noted.
    fn line(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = String::new();
        self.stream.read_line(&mut line).with_context(|| format!("{} says nothing", self.name))?;
        let line = line.trim_end_matches('\n');
        if let Some(event) = line.strip_prefix("event ") {
            self.events.push((event.to_owned(), Instant::now()));
            return Ok(None);
        }
        Ok(Some(line.to_owned()))
    }

    /// Waits until `granted NAME` or `released NAME`; when that was.
    fn event(&mut self, what: &str, name: &str) -> anyhow::Result<Instant> {
        let (wanted, failed) = (format!("{what} {name}"), format!("failed {name}"));
        loop {
            if let Some((_, when)) = self.events.iter().find(|(event, _)| *event == wanted) {
                return Ok(*when);
            }
            if self.events.iter().any(|(event, _)| *event == failed) {
                let why = self.run(&format!("cat /tmp/{name}.log"))?;
                bail!("{}: not {wanted}: {why}", self.name);
            }
            if let Some(line) = self.line()? {
                bail!("{} said `{line}`, not that it was {wanted}", self.name);
            }
        }
    }

    /// Tells it to do something, whose answer is still to come.
    fn tell(&mut self, command: &str) -> anyhow::Result<()> {
        Ok(self.stream.get_mut().write_all(format!("{command}\n").as_bytes())?)
    }

    fn answer(&mut self) -> anyhow::Result<Answer> {
        let line = loop {
            if let Some(line) = self.line()? {
                break line;
            }
        };
        let (status, text) = line.split_once(' ').with_context(|| format!("{} said `{line}`", self.name))?;
        Ok(Answer { status: status.parse()?, text: text.to_owned() })
    }

    /// Nothing happens for a while.
    fn must_wait(&mut self) -> anyhow::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(QUIET))?;
        let found = self.stream.fill_buf().map(|answer| String::from_utf8_lossy(answer).into_owned());
        self.stream.get_ref().set_read_timeout(Some(ANSWER_MAX))?;
        match found {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            found => bail!("{} did not wait: {found:?}", self.name),
        }
    }

    /// Does something that must end well; what it printed.
    fn run(&mut self, command: &str) -> anyhow::Result<String> {
        self.tell(command)?;
        self.succeeded(command)
    }

    fn succeeded(&mut self, command: &str) -> anyhow::Result<String> {
        let Answer { status, text } = self.answer()?;
        ensure!(status == 0, "{}: `{command}` ended with status {status}: {text}", self.name);
        Ok(text)
    }

    /// Does something that must fail and say why.
    fn refused(&mut self, command: &str, why: &str) -> anyhow::Result<()> {
        self.tell(command)?;
        let Answer { status, text } = self.answer()?;
        ensure!(
            status != 0 && text.contains(why),
            "{}: `{command}` was not refused with `{why}`, but ended with status {status}: {text}",
            self.name
        );
        Ok(())
    }

    /// Gets a lock that is free.
    fn hold(&mut self, name: &str, range: &str) -> anyhow::Result<()> {
        self.ask(name, range)?;
        self.event("granted", name).map(drop)
    }

    /// Asks for a lock, and waits for it in the background.
    fn ask(&mut self, name: &str, range: &str) -> anyhow::Result<()> {
        self.events.retain(|(event, _)| !event.ends_with(&format!(" {name}")));
        self.run(&format!("hold {name} {range}")).map(drop)
    }
}

/// Both guests.
struct Clients<'a> {
    one: &'a mut Client,
    two: &'a mut Client,
}

impl Clients<'_> {
    fn run(&mut self, server: &mut Server, work: &Path) -> anyhow::Result<()> {
        for client in [&mut *self.one, &mut *self.two] {
            client.run("mounted 3 4.1 4.2")?;
        }
        for [one, two] in [["4.1", "4.1"], ["4.2", "3"], ["3", "4.1"], ["3", "3"]] {
            self.conflict(one, two).with_context(|| format!("versions {one} and {two}"))?;
        }
        self.client_restarts()?;
        self.crash(server)?;
        self.cut_off(work)
    }

    /// One has a lock and the other does not, until it gets it.
    fn conflict(&mut self, version_one: &str, version_two: &str) -> anyhow::Result<()> {
        let name = format!("conflict-{version_one}-{version_two}");
        let [one, two] = [version_one, version_two].map(|version| format!("/mnt/{version}/{name}"));
        self.one.run(&format!("echo locked >{one}"))?;
        self.one.hold("first", &format!("{one} 0 100"))?;
        self.two.refused(&format!("try {two} 50 100"), HELD_BY_OTHER)?;
        self.two.run(&format!("try {two} 100 100"))?;
        let waited = self.passes_on(&format!("{two} 0 100"))?;
        self.one.refused(&format!("try {one} 99 1"), HELD_BY_OTHER)?;
        self.two.run("release second")?;
        self.one.hold("third", &format!("{one} 0 100"))?;
        self.one.run("release third")?;
        eprintln!(
            "ok conflict {version_one} and {version_two}: granted {} ms after the release",
            waited.as_millis()
        );
        Ok(())
    }

    /// The second guest waits for what `first` is, and gets it when the first guest releases it; how long that took.
    fn passes_on(&mut self, range: &str) -> anyhow::Result<Duration> {
        self.two.ask("second", range)?;
        self.two.must_wait()?;
        self.one.tell("release first")?;
        let released = self.one.event("released", "first")?;
        let waited = self.two.event("granted", "second")?.saturating_duration_since(released);
        self.one.succeeded("release first")?;
        ensure!(waited < GRANT_MAX, "granted {} ms after the release", waited.as_millis());
        Ok(waited)
    }

    /// A client of version 3 that says it has restarted has no locks any more (X/Open XNFS, chapter 11).
    fn client_restarts(&mut self) -> anyhow::Result<()> {
        let file = "/mnt/3/restarted";
        self.one.run(&format!("echo locked >{file}"))?;
        self.one.hold("before", &format!("{file} 0 0"))?;
        self.two.refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        self.one.run("sm-notify -f")?;
        self.two.hold("after", &format!("{file} 0 0"))?;
        self.one.refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        self.one.run("release before")?;
        // What it gives back was not its own any more.
        self.one.refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        self.two.run("release after")?;
        eprintln!("ok client restarts: its locks are given up");
        Ok(())
    }

    /// The server dies while both write and both hold locks; both go on, and nobody gets what the other holds.
    fn crash(&mut self, server: &mut Server) -> anyhow::Result<()> {
        let held = ["3", "4.1", "4.2"];
        for version in held {
            self.one.run(&format!("echo locked >/mnt/{version}/held-{version}"))?;
            self.one.hold(&format!("held-{version}"), &format!("/mnt/{version}/held-{version} 0 0"))?;
        }
        self.one.run("echo locked >/mnt/4.2/theirs")?;
        self.two.hold("theirs", "/mnt/4.2/theirs 0 0")?;
        self.one.run("begin_writing by-one /mnt/4.1")?;
        self.two.run("begin_writing by-two /mnt/3")?;
        std::thread::sleep(Duration::from_secs(5));
        server.kill()?;
        std::thread::sleep(OUTAGE);
        server.start()?;
        let started = Instant::now();
        // Over the other version: asked in the grace period, answered after it.
        for (version, over) in [("4.1", "4.2"), ("3", "3"), ("4.2", "3"), ("3", "4.1")] {
            self.two.refused(&format!("try /mnt/{over}/held-{version} 0 0"), HELD_BY_OTHER)?;
        }
        ensure!(
            started.elapsed() >= GRACE - Duration::from_secs(1),
            "a lock was refused in the grace period"
        );
        self.one.refused("try /mnt/4.1/theirs 0 0", HELD_BY_OTHER)?;
        self.one.run("ended by-one")?;
        self.two.run("ended by-two")?;
        for (file, writer, reader) in [("by-one.0.0", "4.1", "3"), ("by-two.0.0", "3", "4.2")] {
            let [there, here] = [writer, reader].map(|version| format!("sum /mnt/{version}/{file}"));
            ensure!(self.one.run(&there)? == self.two.run(&here)?, "{file} differs");
        }
        self.one.run("nothing_lost")?;
        self.two.run("nothing_lost")?;
        for version in held {
            self.one.run(&format!("release held-{version} write"))?;
            self.two.hold("taken", &format!("/mnt/4.1/held-{version} 0 0"))?;
            self.two.run("release taken")?;
        }
        self.two.run("release theirs")?;
        eprintln!("ok crash: locks held over versions {} are still theirs", held.join(", "));
        Ok(())
    }

    /// A client that is not heard for longer than its lease loses a lock to who wants it, and goes on without it.
    fn cut_off(&mut self, work: &Path) -> anyhow::Result<()> {
        let (file, log) = ("/mnt/4.1/expired", work.join("ip.log"));
        let link = |state: &str| {
            process::run(&["ip", "link", "set", NETWORKS[0].0, state], &log, Duration::from_secs(10))
        };
        self.one.run(&format!("echo locked >{file}"))?;
        self.one.hold("first", &format!("{file} 0 0"))?;
        self.two.refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        link("down")?;
        self.two.hold("second", &format!("{file} 0 0"))?;
        link("up")?;
        self.one.run("echo back >/mnt/4.1/back")?;
        self.one.refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        // Whose lock is lost may not go on as if it were there.
        self.one.refused("release first write", "Input/output error")?;
        self.two.run("release second write")?;
        self.one.hold("again", &format!("{file} 0 0"))?;
        self.two.refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        self.one.run("release again")?;
        eprintln!("ok cut off: its lock went to the other, and it goes on");
        Ok(())
    }
}
