//! A running `plimsoll export`, reached through the mount lines that it prints.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::process::{self, Process};
use crate::samba;

const START_MAX: Duration = Duration::from_secs(60);
const END_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) binary: PathBuf,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) relaxed: bool,
    /// The prefix of its command, such as `taskset`.
    pub(crate) prefix: Vec<String>,
    pub(crate) work: PathBuf,
}

/// A server at a port chosen by the system.
pub(crate) struct Plimsoll {
    process: Process,
    log: PathBuf,
    pub(crate) port: u16,
    /// The paths to mount, in the order of the directories.
    pub(crate) exports: Vec<String>,
}

impl Plimsoll {
    /// Waits for the mount lines.
    pub(crate) fn start(options: &Options) -> anyhow::Result<Self> {
        ensure!(
            options.binary.exists(),
            "{} does not exist; run cargo build --release",
            options.binary.display()
        );
        let log = options.work.join("plimsoll.log");
        let argv = options.argv()?;
        let mut process =
            Process::start(&argv, std::process::Stdio::piped(), process::append_to(&log)?.into())?;
        let lines = lines_of(process.stdout()?);
        let (mut port, mut exports) = (0, Vec::new());
        let deadline = Instant::now() + START_MAX;
        while exports.len() < options.directories.len() {
            let rest = deadline.saturating_duration_since(Instant::now());
            let line = lines
                .recv_timeout(rest)
                .with_context(|| format!("the server did not start; see {}", log.display()))?;
            if let Some((found, export)) = mount_line(&line) {
                port = found;
                exports.push(export);
            }
        }
        Ok(Self { process, log, port, exports })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The server must end with success.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        let status = self.process.terminate(END_MAX)?;
        if !status.success() {
            bail!("plimsoll ended with {status} on SIGTERM, see {}", self.log.display());
        }
        Ok(())
    }
}

/// Each directory is a share with its name, for [`USER`](samba::USER), at a port of this machine.
pub(crate) fn serve_smb(
    binary: &Path,
    directories: &[&Path],
    port: u16,
    work: &Path,
) -> anyhow::Result<Process> {
    // A binary to compare with may be older than the option.
    serve_smb_with(binary, directories, port, &[], work)
}

/// `prefix` precedes the command, such as `valgrind`; `options` are more options of `export`.
pub(crate) fn serve_smb_with_prefix(
    prefix: &[String],
    binary: &Path,
    directories: &[&Path],
    port: u16,
    options: &[&str],
    work: &Path,
) -> anyhow::Result<Process> {
    let (users, log) = (smb_users(work)?, smb_log(work, options));
    let text = |path: &Path| path.to_str().map(String::from).context("path is not UTF-8");
    let mut argv = prefix.to_vec();
    argv.extend([text(binary)?, "export".to_owned()]);
    for directory in directories {
        argv.push(text(directory)?);
    }
    let address = format!("127.0.0.1:{port}");
    argv.extend(["--protocols", "smb", "--smb-listen", &address].map(String::from));
    argv.extend(["--smb-users".to_owned(), text(&users)?]);
    argv.extend(["--state".to_owned(), text(&work.join(format!("state-smb{}", options.concat())))?]);
    argv.extend(options.iter().map(|&option| option.to_owned()));
    let output = process::append_to(&log)?;
    let server = Process::start(&argv, output.try_clone()?.into(), output.into())?;
    samba::wait_for(port).with_context(|| format!("see {}", log.display()))?;
    Ok(server)
}

pub(crate) fn serve_smb_with(
    binary: &Path,
    directories: &[&Path],
    port: u16,
    options: &[&str],
    work: &Path,
) -> anyhow::Result<Process> {
    serve_smb_with_prefix(&[], binary, directories, port, options, work)
}

pub(crate) fn smb_log(work: &Path, options: &[&str]) -> PathBuf {
    work.join(format!("plimsoll-smb{}.log", options.concat()))
}

/// The options of `export` that serve its directories over SMB beside NFS, to the users in a file of [`smb_users`].
pub(crate) fn smb_beside_nfs(listen: &str, users: &str) -> [String; 6] {
    let protocols = "smb,nfsv3,nfsv4.1,nfsv4.2";
    ["--protocols", protocols, "--smb-listen", listen, "--smb-users", users].map(String::from)
}

/// A file in `work` with the users [`USER`](samba::USER) and [`OTHER`](samba::OTHER), and the group
/// [`GROUP`](samba::GROUP).
pub(crate) fn smb_users(work: &Path) -> anyhow::Result<PathBuf> {
    let users = work.join("users.toml");
    let listed = [samba::USER, samba::OTHER].map(|samba::User { name, id, password }| {
        format!("[[user]]\nname = \"{name}\"\nuid = {id}\npassword = \"{password}\"\n")
    });
    let ((name, gid), member) = (samba::GROUP, samba::OTHER.name);
    let group = format!("[[group]]\nname = \"{name}\"\ngid = {gid}\nmembers = [\"{member}\"]\n");
    fs::write(&users, group + &listed.concat())?;
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600))?;
    Ok(users)
}

impl Options {
    fn argv(&self) -> anyhow::Result<Vec<String>> {
        let text = |path: &Path| path.to_str().map(String::from).context("path is not UTF-8");
        let mut argv = self.prefix.clone();
        argv.extend([text(&self.binary)?, "export".to_owned()]);
        for directory in &self.directories {
            argv.push(text(directory)?);
        }
        argv.extend(["--listen", "127.0.0.1:0", "--squash", "none"].map(String::from));
        argv.extend(["--state".to_owned(), text(&self.work.join("state"))?]);
        if self.relaxed {
            argv.extend(["--durability", "relaxed"].map(String::from));
        }
        // A binary to compare with may be older than the option.
        let help = Command::new(&self.binary).args(["help", "export"]).output()?;
        if String::from_utf8_lossy(&help.stdout).contains("--no-portmap") {
            argv.push("--no-portmap".to_owned());
        }
        Ok(argv)
    }
}

/// The lines of its output as they arrive, to the end: printing to a closed pipe would fail.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // The receiver is dropped once the server runs.
            drop(sender.send(line));
        }
    });
    receiver
}

fn mount_line(line: &str) -> Option<(u16, String)> {
    let mut words = line.split_whitespace();
    words.find(|word| word.ends_with("mount"))?;
    let options = words.find(|word| word.contains("vers=3"))?;
    let port = options.split(',').find_map(|option| option.strip_prefix("port="))?.parse().ok()?;
    let (_, path) = words.find(|word| word.contains(":/"))?.split_once(":/")?;
    Some((port, format!("/{path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_lines_are_parsed() {
        let line = "mount -t nfs -o vers=3,proto=tcp,mountport=41,port=42,nolock 127.0.0.1:/a/b /mnt   (durability: relaxed)";
        assert_eq!(mount_line(line), Some((42, "/a/b".to_owned())));
        assert_eq!(mount_line("serving 127.0.0.1:/a"), None);
    }

    #[test]
    fn a_missing_binary_is_refused() {
        let options = Options {
            binary: "/none/such".into(),
            directories: Vec::new(),
            relaxed: false,
            prefix: Vec::new(),
            work: std::env::temp_dir(),
        };
        let error = Plimsoll::start(&options).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("cargo build")));
    }
}
