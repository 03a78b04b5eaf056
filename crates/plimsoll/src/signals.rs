//! Signals of a long-running command.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Signals that end a process by default, and that operators send for a reload or to rotate logs.
const IGNORED: [i32; 3] = [SIGHUP, SIGUSR1, SIGUSR2];

/// Has the signals logged that ask for nothing this command does, from its start to its end.
pub(crate) fn ignore_reloads() {
    let log = move |mut signals: Signals| {
        for signal in signals.forever() {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
            tracing::info!(
                "{name} is ignored: nothing is loaded again, and the log goes to the standard error"
            );
        }
    };
    let started = Signals::new(IGNORED)
        .and_then(|signals| thread::Builder::new().name("signals".into()).spawn(move || log(signals)));
    if let Err(error) = started {
        tracing::warn!(%error, "SIGHUP ends this process: it cannot be ignored");
    }
}

/// Requests to end, for a command that works while it waits for them.
pub(crate) struct Requests(mpsc::Receiver<()>);

impl Requests {
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let (sender, receiver) = mpsc::channel();
        let forward = move || while signals.forever().next().is_some_and(|_| sender.send(()).is_ok()) {};
        thread::Builder::new().name("signals".into()).spawn(forward)?;
        Ok(Self(receiver))
    }

    /// Waits at most this long. Whether the process is to end.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        self.0.recv_timeout(time) != Err(mpsc::RecvTimeoutError::Timeout)
    }
}

/// Has `announce` tell how to use a service, and waits for SIGINT or SIGTERM.
pub(crate) fn until_told(announce: impl FnOnce()) {
    // Before the announcement: its reader may send the signal at once.
    let signals = Signals::new([SIGINT, SIGTERM]);
    announce();
    match signals {
        Ok(mut signals) => _ = signals.forever().next(),
        Err(error) => tracing::error!(%error, "cannot wait for signals"),
    }
}
