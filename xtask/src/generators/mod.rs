//! `cargo xtask generators`: clients that other tools generate from the running service's description, compiled and run
//! against that service.

mod tools;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::checks::{Args, Check};
use crate::managed::Managed;
use crate::packages;
use crate::process::{self, text};
use tools::Tools;

const CHECK_MAX: Duration = Duration::from_secs(180);

/// A running service, its description and the tools.
struct Stage {
    tools: Tools,
    url: String,
    token: String,
    document: PathBuf,
    work: PathBuf,
    log: PathBuf,
}

const CHECKS: [Check<Stage>; 4] = [
    ("redocly lint", Stage::lint),
    ("openapi-python-client", Stage::python),
    ("oapi-codegen", Stage::go),
    ("openapi-typescript", Stage::typescript),
];

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    packages::require(packages::FOR_GENERATORS)?;
    let start = Instant::now();
    let tools = Tools::install()?;
    eprintln!("generators: tools are ready ({:.1} s)", start.elapsed().as_secs_f64());
    let work = tools.home.join("work");
    process::empty_dir(&work)?;
    let service = Managed::start(&process::binary(args.binary.as_deref()), &work, &[])?;
    let stage = Stage::set(tools, &service, work)?;
    let results = args.run("generators", &stage, &CHECKS);
    service.stop()?;
    results.check("generators")?;
    fs::remove_dir_all(&stage.work).with_context(|| format!("cannot remove {}", stage.work.display()))
}

impl Stage {
    fn set(tools: Tools, service: &Managed, work: PathBuf) -> anyhow::Result<Self> {
        let (url, token) = (service.api_url()?, service.token()?);
        let (document, log) = (work.join("openapi.json"), work.join("checks.log"));
        let served = format!("{url}/openapi.json");
        process::run(
            &["curl", "--silent", "--fail", "--output", text(&document)?, &served],
            &log,
            CHECK_MAX,
        )?;
        Ok(Self { tools, url, token, document, work, log })
    }

    fn run(&self, argv: &[&str]) -> anyhow::Result<()> {
        process::run(argv, &self.log, CHECK_MAX)
    }

    /// A copy of the client of this language, for the generated files.
    fn copy(&self, language: &str) -> anyhow::Result<PathBuf> {
        let (source, copy) = (tools::sources().join(language), self.work.join(language));
        fs::create_dir_all(&copy)?;
        for file in fs::read_dir(&source)? {
            let file = file?;
            fs::copy(file.path(), copy.join(file.file_name()))?;
        }
        Ok(copy)
    }

    /// The recommended rules; warnings fail too.
    fn lint(&self) -> anyhow::Result<()> {
        let lint = self.tools.module("@redocly/cli/bin/cli.js");
        let argv = [
            "env",
            "REDOCLY_TELEMETRY=off",
            text(&self.tools.node)?,
            text(&lint)?,
            "lint",
            "--max-problems=20",
        ];
        self.run(&[argv.as_slice(), &["--extends=recommended-strict", text(&self.document)?]].concat())
    }

    fn python(&self) -> anyhow::Result<()> {
        let (client, python) = (self.copy("python")?, &self.tools.python);
        let package = client.join("plimsoll_client");
        let generate = [text(python)?, "-m", "openapi_python_client", "generate", "--meta", "none"];
        let document =
            ["--path", text(&self.document)?, "--output-path", text(&package)?, "--fail-on-warning"];
        let path = format!("PATH={}:/usr/bin:/bin", text(&self.tools.programs)?);
        self.run(&[&["env", &*path], generate.as_slice(), &document].concat())?;
        self.run(&[text(python)?, "-m", "compileall", "-q", text(&client)?])?;
        self.run(&[text(python)?, text(&client.join("client.py"))?, &self.url, &self.token])
    }

    fn go(&self) -> anyhow::Result<()> {
        let client = self.copy("go")?;
        let generated = client.join("plimsoll");
        fs::create_dir(&generated)?;
        let output = generated.join("plimsoll.go");
        let generator = self.tools.oapi_codegen();
        let options = ["-generate", "types,client", "-package", "plimsoll", "-o", text(&output)?];
        self.run(&[&[text(&generator)?], options.as_slice(), &[text(&self.document)?]].concat())?;
        let environment = self.tools.go_environment()?;
        let environment: Vec<&str> = environment.iter().map(String::as_str).collect();
        let go = [environment.as_slice(), &[text(&self.tools.go)?, "-C", text(&client)?]].concat();
        self.run(&[go.as_slice(), &["vet", "./..."]].concat())?;
        self.run(&[go.as_slice(), &["run", ".", &self.url, &self.token]].concat())
    }

    fn typescript(&self) -> anyhow::Result<()> {
        let (client, node) = (self.copy("typescript")?, text(&self.tools.node)?);
        let (generator, compiler) =
            (self.tools.module("openapi-typescript/bin/cli.js"), self.tools.module("typescript/bin/tsc"));
        let output = client.join("plimsoll.d.ts");
        self.run(&[node, text(&generator)?, text(&self.document)?, "--output", text(&output)?])?;
        self.run(&[node, text(&compiler)?, "--noEmit", "--strict", "--project", text(&client)?])?;
        // Node leaves out the types by itself.
        self.run(&[node, text(&client.join("client.ts"))?, &self.url, &self.token])
    }
}
