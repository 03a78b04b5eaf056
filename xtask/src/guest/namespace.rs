//! Commands of xtask that run themselves again in a network namespace, where every port of the loopback is free.

use std::process::Stdio;
use std::time::Duration;

use anyhow::ensure;

use crate::process::Process;

/// The new network namespace has only a loopback.
pub(super) fn run(arguments: &[&str], within: Duration) -> anyhow::Result<()> {
    let own = std::env::current_exe()?.display().to_string();
    let enter = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\"", &own, "guest"];
    let argv: Vec<String> = enter.iter().chain(arguments).map(ToString::to_string).collect();
    let status = Process::start(&argv, Stdio::inherit(), Stdio::inherit())?.wait(within)?;
    ensure!(status.success(), "the command in the namespace ended with {status}");
    Ok(())
}
