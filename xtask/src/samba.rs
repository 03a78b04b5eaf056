//! Samba 4.22 of Debian's backports, independent of an installed Samba: the peer, and its test suite `smbtorture`.
//!
//! Debian 12 itself has 4.17, whose suite has fewer tests. The packages are unpacked below `target` and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::debs::Debs;
use crate::process::{self, Process, text};

/// The directory in which Samba looks for its modules, regardless of its configuration.
const MODULES: &str = "/usr/lib/x86_64-linux-gnu/samba";
const DEBS: Debs = Debs {
    name: "samba",
    suites: &["bookworm", "bookworm-backports"],
    with_all_dependencies: false,
    packages: &["samba-testsuite", "samba", "smbclient"],
};
const START_MAX: Duration = Duration::from_secs(120);
pub(crate) const COMPLETE: &str = "vfs objects = streams_xattr\nea support = yes\nkernel share modes = no\n\
                                   posix locking = no\nkernel oplocks = no\ndurable handles = yes\n";
pub(crate) const PLAIN: &str = "";
/// Runs a program with the unpacked modules in `$0` mounted at [`MODULES`].
const WITH_MODULES: &str = "mkdir -p /usr/lib/x86_64-linux-gnu/samba && mount --bind \"$0\" /usr/lib/x86_64-linux-gnu/samba && exec \"$@\"";

#[derive(Clone, Debug)]
pub(crate) struct Samba {
    root: PathBuf,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) name: &'static str,
    /// The uid on this machine, where Samba requires the user to exist. The user owns the shared files.
    pub(crate) id: u32,
    pub(crate) password: &'static str,
}

pub(crate) const USER: User = User { name: "nobody", id: 65534, password: "torture" };
pub(crate) const OTHER: User = User { name: "daemon", id: 1, password: "another" };
/// A group that owns nothing, with [`OTHER`] as its only member: name and gid.
pub(crate) const GROUP: (&str, u32) = ("künstler", 4711);

impl Samba {
    pub(crate) fn unpack() -> anyhow::Result<Self> {
        Ok(Self { root: DEBS.unpack()? })
    }

    /// One of its programs, by its path below `/usr`.
    pub(crate) fn command(&self, program: &str) -> Command {
        let libraries = self.root.join("usr/lib/x86_64-linux-gnu");
        let modules = self.root.join(MODULES.trim_start_matches('/'));
        let mut command = Command::new(self.root.join("usr").join(program));
        command.env("LD_LIBRARY_PATH", format!("{}:{}", libraries.display(), modules.display()));
        command
    }

    /// Each directory is a share with these settings.
    pub(crate) fn serve(
        &self,
        shares: &[(String, PathBuf)],
        settings: &str,
        port: u16,
        work: &Path,
    ) -> anyhow::Result<Process> {
        for directory in ["private", "lock", "state", "cache", "pid", "ncalrpc", "log"] {
            fs::create_dir_all(work.join(directory))?;
        }
        let file = work.join("smb.conf");
        fs::write(&file, configuration(shares, settings, port, work))?;
        [USER, OTHER].iter().try_for_each(|user| self.add_user(&file, user))?;
        let modules = self.root.join(MODULES.trim_start_matches('/'));
        let smbd = self.command("sbin/smbd");
        let library_path = format!(
            "LD_LIBRARY_PATH={}:{}",
            text(&self.root.join("usr/lib/x86_64-linux-gnu"))?,
            text(&modules)?
        );
        let argv = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            WITH_MODULES,
            text(&modules)?,
            "env",
            &library_path,
            &smbd.get_program().to_string_lossy(),
            "--foreground",
            "--configfile",
            text(&file)?,
        ];
        let log = process::append_to(&work.join("smbd.log"))?;
        let argv = argv.map(String::from);
        let server = Process::start(&argv, log.try_clone()?.into(), Stdio::from(log))?;
        wait_for(port)?;
        Ok(server)
    }

    fn add_user(&self, settings: &Path, user: &User) -> anyhow::Result<()> {
        use std::io::Write;
        let mut child = self.command("bin/smbpasswd");
        let child = child.arg("-c").arg(settings).args(["-L", "-a", "-s", user.name]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let password = format!("{0}\n{0}\n", user.password);
        child.stdin.take().context("no input")?.write_all(password.as_bytes())?;
        ensure!(child.wait()?.success(), "smbpasswd rejected the user {}", user.name);
        Ok(())
    }
}

pub(crate) fn wait_for(port: u16) -> anyhow::Result<()> {
    let deadline = Instant::now() + START_MAX;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(Instant::now() < deadline, "no server listens at port {port}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn configuration(shares: &[(String, PathBuf)], settings: &str, port: u16, work: &Path) -> String {
    let at = |name: &str| work.join(name).display().to_string();
    let global = format!(
        "[global]\nworkgroup = TORTURE\nserver role = standalone\nsmb ports = {port}\ninterfaces = 127.0.0.1\n\
         bind interfaces only = yes\nprivate dir = {}\nlock directory = {}\nstate directory = {}\n\
         cache directory = {}\npid directory = {}\nncalrpc dir = {}\nlog file = {}/%m.log\n\
         passdb backend = tdbsam:{}/passdb.tdb\nload printers = no\ndisable spoolss = yes\nmap to guest = never\n",
        at("private"),
        at("lock"),
        at("state"),
        at("cache"),
        at("pid"),
        at("ncalrpc"),
        at("log"),
        at("private"),
    );
    let share = |(name, directory): &(String, PathBuf)| {
        format!("[{name}]\npath = {}\nread only = no\n{settings}", directory.display())
    };
    shares.iter().fold(global, |all, one| all + &share(one))
}
