//! The guest's image: a Debian root file system, a kernel and an initramfs, built once and stored under `target/guest`.
//!
//! The kernel of the test machine may lack an NFS client; Debian's cloud kernel has one. Building needs neither a loop
//! device nor a mount: `mke2fs -d` fills the root image from a directory.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;

use crate::process;
use crate::random::mix;

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// Debian 12, Linux 6.1.
    Bookworm,
    /// Debian 13, Linux 6.12.
    Trixie,
}

/// The package that depends on the suite's newest kernel for virtual machines.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
/// Packages of every guest: the client and the tools of its tests.
const GUEST_PACKAGES: &str = "nfs-common,nfs4-acl-tools,netbase,fio,kmod,busybox-static,iproute2,procps";
const HOST_TOOLS: [(&str, &str); 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mmdebstrap", "mmdebstrap"),
    ("mke2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("cpio", "cpio"),
    ("xz", "xz-utils"),
];
/// Drivers the initramfs loads before there is a root; ext4 and the serial console are in the kernel.
const BOOT_MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_net"];
/// Parts of the root that no test reads.
const SUPERFLUOUS: [&str; 9] = [
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "lib/modules/KERNEL/kernel/sound",
    "lib/modules/KERNEL/kernel/drivers/gpu",
    "lib/modules/KERNEL/kernel/drivers/infiniband",
    "lib/modules/KERNEL/kernel/drivers/media",
];
const BOOT_SCRIPT: &str = include_str!("../../guest/boot.sh");
/// Incremented by hand when the steps below change.
const RECIPE_VERSION: u64 = 3;

const COMMAND_MAX: Duration = Duration::from_secs(900);

impl Suite {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }

    /// Further packages of this release's guest: file systems, the kernel's own NFS server as a reference, systemd for the
    /// test of the package, the client of remote quotas, and rsync; or TLS.
    fn more_packages(self) -> &'static str {
        match self {
            Self::Bookworm => "nfs-kernel-server,e2fsprogs,xfsprogs,systemd-sysv,quota,rsync",
            Self::Trixie => "ktls-utils",
        }
    }
}

pub(crate) struct Image {
    dir: PathBuf,
}

impl Image {
    /// The image of the current recipe, built if it is missing. Needs root.
    pub(crate) fn build(suite: Suite) -> anyhow::Result<Self> {
        let name = suite.name();
        let guest_dir = process::target_dir().join("guest");
        fs::create_dir_all(&guest_dir)?;
        let lock = File::create(guest_dir.join(format!("{name}.lock")))?;
        lock.lock()?;
        let dir = guest_dir.join(format!("image-{name}-{:016x}", recipe_key(suite)));
        if !dir.exists() {
            remove_old_images(&guest_dir, suite)?;
            let partial = guest_dir.join(format!("partial-{name}"));
            process::empty_dir(&partial)?;
            let log = guest_dir.join(format!("image-{name}.log"));
            Recipe { suite, dir: partial.clone(), log }.cook()?;
            fs::rename(&partial, &dir)?;
        }
        Ok(Self { dir })
    }

    pub(crate) fn kernel(&self) -> PathBuf {
        self.dir.join("vmlinuz")
    }

    pub(crate) fn initramfs(&self) -> PathBuf {
        self.dir.join("initramfs")
    }

    /// An ext4 file system; to be opened only with a temporary overlay.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.join("root.ext4")
    }
}

struct Recipe {
    suite: Suite,
    dir: PathBuf,
    log: PathBuf,
}

impl Recipe {
    fn cook(&self) -> anyhow::Result<()> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "building the guest's image needs root (mmdebstrap, chroot)"
        );
        drop(fs::remove_file(&self.log));
        self.install_host_tools()?;
        let root = self.dir.join("root");
        eprintln!("guest: building the root file system, log in {}", self.log.display());
        self.run(&[
            "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            &format!("--include={GUEST_PACKAGES},{}", self.suite.more_packages()),
            self.suite.name(),
            path(&root)?,
            &mirror(self.suite)?,
        ])?;
        let version = self.unpack_kernel(&root)?;
        self.build_initramfs(&root, &version)?;
        for part in SUPERFLUOUS {
            let part = root.join(part.replace("KERNEL", &version));
            if part.exists() {
                fs::remove_dir_all(part)?;
            }
        }
        fs::create_dir(root.join("job"))?;
        let image = self.dir.join("root.ext4");
        self.run(&[
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-O",
            "^has_journal",
            "-d",
            path(&root)?,
            path(&image)?,
            "1500M",
        ])?;
        fs::remove_dir_all(&root)?;
        Ok(())
    }

    fn install_host_tools(&self) -> anyhow::Result<()> {
        let missing: Vec<&str> =
            HOST_TOOLS.iter().filter(|(tool, _)| !is_installed(tool)).map(|&(_, package)| package).collect();
        if missing.is_empty() {
            return Ok(());
        }
        eprintln!("guest: installing {}", missing.join(" "));
        self.run(&["apt-get", "update"])?;
        let mut install = vec!["apt-get", "install", "-y", "--no-install-recommends"];
        install.extend(missing);
        self.run(&install)
    }

    /// Unpacks the kernel without installing it: no hooks, no initramfs-tools. Returns its version.
    fn unpack_kernel(&self, root: &Path) -> anyhow::Result<String> {
        let script = format!(
            "set -e; apt-get update; cd /tmp; apt-get download \
             $(apt-cache depends {KERNEL_PACKAGE} | sed -n 's/.*Depends: \\(linux-image-[0-9].*\\)/\\1/p' | head -n 1); \
             dpkg-deb -x linux-image-*.deb /tmp/kernel; \
             mkdir -p /lib/modules; mv $(find /tmp/kernel -path '*/lib/modules/*' -prune) /lib/modules/; \
             mv /tmp/kernel/boot/vmlinuz-* /tmp/; \
             rm -rf /tmp/kernel /tmp/*.deb; depmod \"$(ls /lib/modules)\""
        );
        self.run(&["chroot", path(root)?, "sh", "-c", &script])?;
        let version =
            fs::read_dir(root.join("lib/modules"))?.next().context("no kernel modules")??.file_name();
        let version = version.into_string().ok().context("kernel version is not UTF-8")?;
        fs::rename(root.join(format!("tmp/vmlinuz-{version}")), self.dir.join("vmlinuz"))?;
        Ok(version)
    }

    /// A busybox, the disk and network drivers, and `boot.sh`.
    fn build_initramfs(&self, root: &Path, version: &str) -> anyhow::Result<()> {
        let tree = self.dir.join("initramfs.d");
        for dir in ["bin", "dev", "proc", "sys", "root", "modules"] {
            fs::create_dir_all(tree.join(dir))?;
        }
        fs::copy(root.join("bin/busybox"), tree.join("bin/busybox"))?;
        fs::write(tree.join("init"), BOOT_SCRIPT)?;
        fs::set_permissions(tree.join("init"), fs::Permissions::from_mode(0o755))?;
        let mut order: Vec<String> = Vec::new();
        for module in BOOT_MODULES {
            for file in module_files(root, version, module)? {
                let packed = root.join(file.trim_start_matches('/'));
                let name = file.rsplit('/').next().unwrap_or(&file).trim_end_matches(".xz").to_owned();
                unpack_module(&packed, &tree.join("modules").join(&name))?;
                if !order.contains(&name) {
                    order.push(name);
                }
            }
        }
        fs::write(tree.join("modules/order"), order.join("\n"))?;
        let script = "cd \"$0\" && find . | cpio -o -H newc --quiet >../initramfs";
        self.run(&["sh", "-c", script, path(&tree)?])?;
        fs::remove_dir_all(&tree)?;
        Ok(())
    }

    fn run(&self, argv: &[&str]) -> anyhow::Result<()> {
        process::run(argv, &self.log, COMMAND_MAX)
    }
}

/// Copies a module. Debian 13 compresses modules, which busybox cannot load.
fn unpack_module(packed: &Path, to: &Path) -> anyhow::Result<()> {
    if packed.extension().is_some_and(|extension| extension == "xz") {
        let status = Command::new("xz").arg("-dc").arg(packed).stdout(File::create(to)?).status()?;
        ensure!(status.success(), "cannot unpack {}: {status}", packed.display());
    } else {
        fs::copy(packed, to)?;
    }
    Ok(())
}

/// In loading order.
fn module_files(root: &Path, version: &str, module: &str) -> anyhow::Result<Vec<String>> {
    let output = Command::new("chroot")
        .arg(root)
        .args(["modprobe", "-S", version, "--show-depends", module])
        .output()?;
    if !output.status.success() {
        bail!("the kernel has no {module}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let listing = String::from_utf8(output.stdout)?;
    Ok(listing
        .lines()
        .filter_map(|line| line.strip_prefix("insmod "))
        .map(|file| file.trim().to_owned())
        .collect())
}

/// The source of the suite, or of Debian 12 beside it, in the host's apt.
fn mirror(suite: Suite) -> anyhow::Result<String> {
    for suite in [suite, Suite::Bookworm] {
        let codename = format!("Codename: {}", suite.name());
        let arguments = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", &codename];
        let listed = Command::new("apt-get").args(arguments).output();
        let listed = listed.context("cannot ask apt-get for its sources")?.stdout;
        if let Some(first) = String::from_utf8_lossy(&listed).lines().next() {
            return Ok(first.to_owned());
        }
    }
    bail!("apt has no source of Debian 12; run apt-get update (the guest is built from its packages)")
}

fn recipe_key(suite: Suite) -> u64 {
    let parts = [suite.name(), suite.more_packages(), KERNEL_PACKAGE, GUEST_PACKAGES, BOOT_SCRIPT];
    let bytes = parts.iter().chain(&BOOT_MODULES).chain(&SUPERFLUOUS).flat_map(|part| part.bytes());
    bytes.fold(RECIPE_VERSION, |key, byte| mix(key ^ u64::from(byte)))
}

/// Also removes those of former recipes.
fn remove_old_images(guest_dir: &Path, suite: Suite) -> anyhow::Result<()> {
    let others = Suite::value_variants().iter().filter(|other| **other != suite);
    let prefixes: Vec<String> = others.map(|other| format!("image-{}-", other.name())).collect();
    for entry in fs::read_dir(guest_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_kept = !name.starts_with("image-") || prefixes.iter().any(|prefix| name.starts_with(prefix));
        if !is_kept && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').any(|dir| Path::new(dir).join(tool).exists())
}

fn path(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
