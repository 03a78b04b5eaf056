//! The scenes: interactions of the two guests.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::{GRACE, Host, OUTAGE};
use crate::guest::client::Client;

/// The time from the release of a lock to its grant to a waiting client: shorter than the first retry of a client
/// without a callback, see `client.rs`.
const GRANT_MAX: Duration = Duration::from_secs(2);
/// The longest such time for a client without a callback, which gets the lock at its fourth or fifth retry.
const RETRY_GRANT_MAX: Duration = Duration::from_secs(12);
/// Pairs of versions in the short form: each version is in one.
const BRIEF_PAIRS: usize = 3;
const HELD_BY_OTHER: &str = "Resource temporarily unavailable";

pub(super) struct Clients {
    pub(super) one: Client,
    pub(super) two: Client,
}

impl Clients {
    /// Runs every scene. The short form has fewer pairs of versions, and no scene that waits for a lease to expire.
    pub(super) fn run(&mut self, host: &mut Host, is_brief: bool) -> anyhow::Result<()> {
        for client in [&mut self.one, &mut self.two] {
            client.run("mounted 3 4.0 4.1 4.2")?;
        }
        let versions = [
            ["4.1", "4.1"],
            ["4.2", "3"],
            ["4.1", "4.0"],
            ["3", "4.1"],
            ["3", "3"],
            ["4.0", "4.1"],
            ["4.0", "4.0"],
        ];
        let pairs = if is_brief { BRIEF_PAIRS } else { versions.len() };
        for [one, two] in versions.into_iter().take(pairs) {
            self.conflict(one, two).with_context(|| format!("versions {one} and {two}"))?;
        }
        self.crash(host)?;
        if !is_brief {
            self.client_restarts()?;
            self.cut_off(host)?;
        }
        self.delegated_reading()?;
        self.delegated_writing(host)
    }

    /// One client holds a lock, and the other gets it only after its release.
    fn conflict(&mut self, version_one: &str, version_two: &str) -> anyhow::Result<()> {
        let name = format!("conflict-{version_one}-{version_two}");
        let [one, two] = [version_one, version_two].map(|version| format!("/mnt/{version}/{name}"));
        self.one.run(&format!("echo locked >{one}"))?;
        self.one.lock("first", &format!("{one} 0 100"))?;
        self.two.run_refused(&format!("try {two} 50 100"), HELD_BY_OTHER)?;
        self.two.run(&format!("try {two} 100 100"))?;
        // Version 4.0 has no callback for locks.
        let within = if version_two == "4.0" { RETRY_GRANT_MAX } else { GRANT_MAX };
        let waited = self.wait_for_release(&format!("{two} 0 100"), within)?;
        self.one.run_refused(&format!("try {one} 99 1"), HELD_BY_OTHER)?;
        self.two.run("release second")?;
        self.one.lock("third", &format!("{one} 0 100"))?;
        self.one.run("release third")?;
        eprintln!(
            "ok conflict {version_one} and {version_two}: granted {} ms after the release",
            waited.as_millis()
        );
        Ok(())
    }

    /// The second guest waits for the lock of `first`, and gets it when the first guest releases it. Returns the
    /// duration.
    fn wait_for_release(&mut self, range: &str, within: Duration) -> anyhow::Result<Duration> {
        self.two.request_lock("second", range)?;
        self.two.assert_quiet()?;
        self.one.send_command("release first")?;
        let released = self.one.wait_for_event("released", "first")?;
        let waited = self.two.wait_for_event("granted", "second")?.saturating_duration_since(released);
        self.one.succeeded("release first")?;
        ensure!(waited < within, "granted {} ms after the release", waited.as_millis());
        Ok(waited)
    }

    /// A client of version 3 that reports a restart has lost its locks (X/Open XNFS, chapter 11).
    fn client_restarts(&mut self) -> anyhow::Result<()> {
        let file = "/mnt/3/restarted";
        self.one.run(&format!("echo locked >{file}"))?;
        self.one.lock("before", &format!("{file} 0 0"))?;
        self.two.run_refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        self.one.run("sm-notify -f")?;
        self.two.lock("after", &format!("{file} 0 0"))?;
        self.one.run_refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        self.one.run("release before")?;
        // The released lock was no longer its own.
        self.one.run_refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        self.two.run("release after")?;
        eprintln!("ok client restarts: its locks are released");
        Ok(())
    }

    /// The server crashes while both clients write and hold locks. Both continue, and neither gets a lock of the other.
    fn crash(&mut self, host: &mut Host) -> anyhow::Result<()> {
        let versions = ["3", "4.0", "4.1", "4.2"];
        for version in versions {
            self.one.run(&format!("echo locked >/mnt/{version}/held-{version}"))?;
            self.one.lock(&format!("held-{version}"), &format!("/mnt/{version}/held-{version} 0 0"))?;
        }
        self.one.run("echo locked >/mnt/4.2/theirs")?;
        self.two.lock("theirs", "/mnt/4.2/theirs 0 0")?;
        self.one.run("begin_writing by-one /mnt/4.1")?;
        self.two.run("begin_writing by-two /mnt/3")?;
        std::thread::sleep(Duration::from_secs(5));
        let crashed = Instant::now();
        host.crash()?;
        // A lock request over the other version in the grace period is answered after it.
        for (version, over) in
            [("4.1", "4.2"), ("3", "3"), ("4.2", "3"), ("3", "4.1"), ("4.0", "4.1"), ("4.1", "4.0")]
        {
            self.two.run_refused(&format!("try /mnt/{over}/held-{version} 0 0"), HELD_BY_OTHER)?;
        }
        // The grace period begins with the server, after the outage.
        ensure!(crashed.elapsed() >= OUTAGE + GRACE, "a lock was refused in the grace period");
        self.one.run_refused("try /mnt/4.1/theirs 0 0", HELD_BY_OTHER)?;
        self.one.run("ended by-one")?;
        self.two.run("ended by-two")?;
        for (file, writer, reader) in [("by-one.0.0", "4.1", "3"), ("by-two.0.0", "3", "4.2")] {
            let [there, here] = [writer, reader].map(|version| format!("sum /mnt/{version}/{file}"));
            ensure!(self.one.run(&there)? == self.two.run(&here)?, "{file} differs");
        }
        self.one.run("nothing_lost")?;
        self.two.run("nothing_lost")?;
        for version in versions {
            self.one.run(&format!("release held-{version} write"))?;
            self.two.lock("taken", &format!("/mnt/4.1/held-{version} 0 0"))?;
            self.two.run("release taken")?;
        }
        self.two.run("release theirs")?;
        eprintln!("ok crash: locks over versions {} survived", versions.join(", "));
        Ok(())
    }

    /// A client that is silent for longer than its lease loses a lock to a waiting client, and continues without it.
    fn cut_off(&mut self, host: &Host) -> anyhow::Result<()> {
        let file = "/mnt/4.1/expired";
        self.one.run(&format!("echo locked >{file}"))?;
        self.one.lock("first", &format!("{file} 0 0"))?;
        self.two.run_refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        host.set_link("down")?;
        self.two.lock("second", &format!("{file} 0 0"))?;
        host.set_link("up")?;
        self.one.run("echo back >/mnt/4.1/back")?;
        self.one.run_refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        // A client may not continue as if it still held a lost lock.
        self.one.run_refused("release first write", "Input/output error")?;
        self.two.run("release second write")?;
        self.one.lock("again", &format!("{file} 0 0"))?;
        self.two.run_refused(&format!("try {file} 0 0"), HELD_BY_OTHER)?;
        self.one.run("release again")?;
        eprintln!("ok cut off: the other client got its lock, and it continues");
        Ok(())
    }

    /// Data read under a delegation is read again after the other client has written.
    fn delegated_reading(&mut self) -> anyhow::Result<()> {
        self.one.run("echo first >/mnt/3/read")?;
        let returned = self.two.run("operations DELEGRETURN")?;
        for (version, text) in [("3", "second"), ("4.1", "third")] {
            self.two.run("cat /mnt/4.2/read")?;
            self.one.run(&format!("echo {text} >/mnt/{version}/read"))?;
            self.two.run(&format!("grep {text} /mnt/4.2/read"))?;
        }
        ensure!(self.two.run("operations DELEGRETURN")? != returned, "there was no delegation");
        eprintln!("ok delegated reading: data of the other client is read");
        Ok(())
    }

    /// Data written under a delegation, and locked, is visible to the other client, even after a crash of the server.
    fn delegated_writing(&mut self, host: &mut Host) -> anyhow::Result<()> {
        host.server.stop()?;
        host.start(&["--write-delegations"])?;
        self.two.run("echo mine >/mnt/4.2/written")?;
        let [opened, returned] = ["OPEN", "DELEGRETURN"].map(|name| format!("operations {name}"));
        let (opens, returns) = (self.two.run(&opened)?, self.two.run(&returned)?);
        self.two.run("echo more >>/mnt/4.2/written")?;
        ensure!(self.two.run(&opened)? == opens, "writing was not delegated");
        let size = self.one.run("stat -c %s /mnt/4.1/written")?;
        ensure!(size == "10|", "the file has a size of {size}");
        self.one.run("grep more /mnt/4.1/written")?;
        ensure!(self.two.run(&returned)? != returns, "the delegation was not returned");
        self.two.run("echo locked >/mnt/4.2/locked")?;
        let locks = self.two.run("operations LOCK")?;
        self.two.lock("delegated", "/mnt/4.2/locked 0 0")?;
        ensure!(self.two.run("operations LOCK")? == locks, "locking was not delegated");
        self.one.run_refused("try /mnt/4.1/locked 0 0", HELD_BY_OTHER)?;
        self.one.run_refused("try /mnt/3/locked 0 0", HELD_BY_OTHER)?;
        self.two.run("release delegated write")?;
        self.two.run("echo late >/mnt/4.2/late")?;
        host.crash()?;
        self.one.run("grep late /mnt/4.1/late")?;
        eprintln!("ok delegated writing: written data and locks are visible to the other client");
        Ok(())
    }
}
