//! A guest that executes commands from a connection.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

const BOOT_MAX: Duration = Duration::from_secs(300);
const ANSWER_MAX: Duration = Duration::from_secs(400);
/// The time for which a conflicting lock must not be granted. A client without a callback asks again 1, 3 and 7 seconds
/// after the first time, or later.
const QUIET: Duration = Duration::from_secs(4);

/// Waits for the next guest that connects.
pub(crate) fn accept(control: &TcpListener) -> anyhow::Result<Client> {
    control.set_nonblocking(true)?;
    let deadline = Instant::now() + BOOT_MAX;
    loop {
        ensure!(Instant::now() < deadline, "a guest did not connect in time");
        match control.accept() {
            Ok((stream, _)) => return Client::new(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) struct Client {
    pub(crate) name: String,
    stream: BufReader<TcpStream>,
    /// In the background, with their times.
    events: Vec<(String, Instant)>,
}

struct CommandResult {
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
        client.name = client.line()?.context("the guest sent no name")?;
        Ok(client)
    }

    /// The next line that is not an event; events are recorded.
    fn line(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = String::new();
        self.stream.read_line(&mut line).with_context(|| format!("no answer from {}", self.name))?;
        let line = line.trim_end_matches('\n');
        if let Some(event) = line.strip_prefix("event ") {
            self.events.push((event.to_owned(), Instant::now()));
            return Ok(None);
        }
        Ok(Some(line.to_owned()))
    }

    /// Waits for `granted NAME` or `released NAME`, and returns the time.
    pub(crate) fn wait_for_event(&mut self, what: &str, name: &str) -> anyhow::Result<Instant> {
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
                bail!("{} sent `{line}`; expected {wanted}", self.name);
            }
        }
    }

    pub(crate) fn send_command(&mut self, command: &str) -> anyhow::Result<()> {
        Ok(self.stream.get_mut().write_all(format!("{command}\n").as_bytes())?)
    }

    fn answer(&mut self) -> anyhow::Result<CommandResult> {
        let line = loop {
            if let Some(line) = self.line()? {
                break line;
            }
        };
        let (status, text) = line.split_once(' ').with_context(|| format!("{} sent `{line}`", self.name))?;
        Ok(CommandResult { status: status.parse()?, text: text.to_owned() })
    }

    pub(crate) fn assert_quiet(&mut self) -> anyhow::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(QUIET))?;
        let found = self.stream.fill_buf().map(|answer| String::from_utf8_lossy(answer).into_owned());
        self.stream.get_ref().set_read_timeout(Some(ANSWER_MAX))?;
        match found {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            found => bail!("{} did not wait; it sent {found:?}", self.name),
        }
    }

    pub(crate) fn run(&mut self, command: &str) -> anyhow::Result<String> {
        self.send_command(command)?;
        self.succeeded(command)
    }

    pub(crate) fn succeeded(&mut self, command: &str) -> anyhow::Result<String> {
        let CommandResult { status, text } = self.answer()?;
        ensure!(status == 0, "{}: `{command}` ended with status {status}: {text}", self.name);
        Ok(text)
    }

    pub(crate) fn run_refused(&mut self, command: &str, why: &str) -> anyhow::Result<()> {
        self.send_command(command)?;
        let CommandResult { status, text } = self.answer()?;
        ensure!(
            status != 0 && text.contains(why),
            "{}: `{command}` was not refused with `{why}`, but ended with status {status}: {text}",
            self.name
        );
        Ok(())
    }

    pub(crate) fn lock(&mut self, name: &str, range: &str) -> anyhow::Result<()> {
        self.request_lock(name, range)?;
        self.wait_for_event("granted", name).map(drop)
    }

    /// Requests a lock, and waits for it in the background.
    pub(crate) fn request_lock(&mut self, name: &str, range: &str) -> anyhow::Result<()> {
        self.events.retain(|(event, _)| !event.ends_with(&format!(" {name}")));
        self.run(&format!("hold {name} {range}")).map(drop)
    }
}
