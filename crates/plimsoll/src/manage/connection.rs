//! A command's connection to the service: address, token, and error messages.

use crate::announcement::Announcement;
use crate::config::Config;
use crate::exit::{Refused, usage};
use crate::form::Form;
use crate::gateway_dir;
use crate::local_socket::SocketPath;
use crate::mounting;
use crate::shell::quoted;
use crate::state;
use crate::terminal::{self, printable};
use anyhow::{Context, anyhow, bail};
use api::convert::ToValue;
use api_client::ADMIN_TOKEN_FILE;
use api_client::model::{MountTarget, Page, Problem, Volume, Warning};
use api_client::{CertificateFault, ChangeOptions, Client, Error, Target};
use clap::Args;
use serde::Serialize;
use stable::files::read_secret;
use std::fs;
use std::io::{ErrorKind, IsTerminal};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// The environment variable with the token.
const TOKEN_VARIABLE: &str = "PLIMSOLL_TOKEN";

/// The service to ask, and the form of the output.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Reach {
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

/// The service to ask.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct ServiceArgs {
    /// Data directory of a service on this machine [default: that of the configuration]
    ///
    /// The directory contains the service's address and the token. The default without a configuration is
    /// /var/lib/plimsoll for root, and ~/.local/state/plimsoll for an ordinary user.
    #[arg(long, global = true, value_name = "DIR", env = "PLIMSOLL_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Configuration of a service on this machine, which names its data directory [default for root: /etc/plimsoll/plimsoll.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "PLIMSOLL_CONFIG", hide_short_help = true)]
    pub(crate) config: Option<PathBuf>,
    /// URL of the service's API, like https://storage.example.org:2050 [default: that in the data directory]
    #[arg(long, global = true, value_name = "URL", env = "PLIMSOLL_URL")]
    pub(crate) url: Option<String>,
    /// File with the token [default: the variable PLIMSOLL_TOKEN, or the data directory's admin.token]
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// CA certificates in PEM to check the service's certificate with [default: the public ones]
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", env = "PLIMSOLL_CA")]
    pub(crate) ca: Option<PathBuf>,
}

/// Conditions of a change.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TermsArgs {
    /// Make the change even if clients use the volume, it has snapshots, stored data will not fit, or a pool will be overbooked
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    version: VersionArgs,
}

/// The version that a change expects.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct VersionArgs {
    /// Make the change only if the object still has this version, which `show` prints
    #[arg(long, value_name = "VERSION", hide_short_help = true)]
    if_version: Option<String>,
}

impl VersionArgs {
    pub(crate) fn terms(&self) -> ChangeOptions {
        self.if_version
            .iter()
            .fold(ChangeOptions::none(), |terms, version| terms.at(format!("\"{version}\"")))
    }
}

impl TermsArgs {
    pub(crate) fn terms(&self) -> ChangeOptions {
        self.version.terms().forced(self.force)
    }

    /// These conditions; if they name no version, the change expects `etag`.
    pub(crate) fn terms_or(&self, etag: String) -> ChangeOptions {
        if self.version.if_version.is_some() { self.terms() } else { self.terms().at(etag) }
    }
}

/// Refuses an update without a change.
pub(crate) fn check_change<T: Default + PartialEq>(patch: &T) -> anyhow::Result<()> {
    if *patch == T::default() {
        return Err(usage("nothing to change; allowed: at least one of the options that \"--help\" lists"));
    }
    Ok(())
}

/// Consent to delete.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct YesArgs {
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
}

impl YesArgs {
    /// Asks at the terminal whether to delete `what`; refuses if there is no terminal.
    pub(crate) fn confirm(self, what: &str) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        let what = printable(what);
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            bail!(
                "nothing was deleted: there is no terminal to ask at; to delete {what} for good, use --yes"
            );
        }
        eprint!("Delete {what} for good? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
        let is_yes = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
        if is_yes { Ok(()) } else { bail!("nothing was deleted") }
    }
}

/// An object of the API with further properties that the tables show.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Detailed<T, D> {
    #[serde(flatten)]
    pub(crate) object: T,
    #[serde(flatten)]
    pub(crate) details: D,
}

/// A connection to a service.
pub(crate) struct Session {
    client: Client,
    url: String,
    /// The address of NFS, if the data directory has it.
    nfs: Option<SocketAddr>,
    /// The address of SMB, if the data directory has it.
    smb: Option<SocketAddr>,
    form: Form,
    _socket: Option<SocketPath>,
}

impl Reach {
    pub(crate) fn open(&self) -> anyhow::Result<Session> {
        Ok(Session { form: self.form.clone(), ..self.service.open()? })
    }
}

impl ServiceArgs {
    /// Whether a service is named, on the command line or in the environment.
    pub(crate) fn is_named(&self) -> bool {
        self.data.is_some() || self.url.is_some()
    }

    /// Whether nothing but the environment names it.
    pub(crate) fn is_from_environment(&self) -> bool {
        let data = std::env::var_os("PLIMSOLL_DATA").map(PathBuf::from);
        self.data == data && self.url == std::env::var("PLIMSOLL_URL").ok()
    }

    pub(crate) fn open(&self) -> anyhow::Result<Session> {
        let data = match self.data_dir() {
            // A URL needs no data directory, so a configuration that cannot be read does no harm.
            Err(_) if self.url.is_some() => state::default_dir(),
            found => found?,
        };
        let announced = match Announcement::read(&data) {
            Err(_) if self.url.is_some() => None,
            Err(error) if is_private(&error) => bail!(
                "you may not read the data directory {}: run as the user of the service, or give --url URL \
                 and a token of your own (\"plimsoll token create\")",
                data.display()
            ),
            announced => announced?,
        };
        let url = match (&self.url, &announced) {
            (Some(url), _) => checked_url(url)?,
            (None, Some(announced)) => announced.api.clone(),
            (None, None) => return Err(nothing_runs(&data)),
        };
        // The token in a data directory belongs to the service there: never send it to another URL.
        let is_own = announced.as_ref().is_some_and(|announced| announced.api == url);
        let token = self.token(is_own.then_some(data.as_path()))?;
        let read = |path: &PathBuf| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let issuers = self.ca.as_ref().map(read).transpose()?;
        // A named URL is asked over the network, also if it is the one in the data directory.
        let is_local = self.url.is_none() && announced.as_ref().is_some_and(|announced| announced.has_socket);
        let socket = is_local.then(|| SocketPath::in_dir(&data)).transpose()?;
        let path = socket.as_ref().map(|socket| socket.path.clone());
        let target = Target { url: url.clone(), token, issuers, socket: path };
        // Only the certificates of --ca can be wrong before the first request.
        let client = Client::new(&target).map_err(|error| match error {
            Error::Unreachable(why) => anyhow!("--ca (PLIMSOLL_CA): {why}"),
            other => describe(other, &url),
        })?;
        let announced = announced.filter(|_| is_own);
        let (nfs, smb) = (announced.as_ref().map(|own| own.nfs), announced.and_then(|own| own.smb));
        Ok(Session { client, url, nfs, smb, form: Form::default(), _socket: socket })
    }

    fn data_dir(&self) -> anyhow::Result<PathBuf> {
        match &self.data {
            Some(data) => Ok(data.clone()),
            None => Ok(Config::read_or_default(self.config.as_deref())?.data),
        }
    }

    fn token(&self, data: Option<&Path>) -> anyhow::Result<String> {
        if let Some(path) = &self.token_file {
            return read_token(path);
        }
        if let Some(token) = std::env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty()) {
            let refused = |_| usage(format!("the variable {TOKEN_VARIABLE} is not text; allowed: a token"));
            return token.into_string().map_err(refused);
        }
        let Some(data) = data else {
            bail!(
                "a token is needed for this --url: give it with --token-file FILE or in the variable {TOKEN_VARIABLE}"
            )
        };
        read_token(&data.join(ADMIN_TOKEN_FILE))
    }
}

/// The allowed URLs of a service.
pub(crate) const URL_ALLOWED: &str =
    "https://HOST:PORT or http://HOST:PORT, like https://storage.example.org:2050";

/// Whether a text is the URL of a service.
pub(crate) fn is_url(text: &str) -> bool {
    let place = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = place.map(|place| place.trim_end_matches('/'));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', ' ']))
}

/// The error if no service runs in this directory.
fn nothing_runs(data: &Path) -> anyhow::Error {
    if state::is_beside_system_dir(data) {
        return anyhow!(
            "no service of this user runs: for the service of root, use sudo, or give --url URL and a token of your own \
             (\"plimsoll token create\")"
        );
    }
    let shown = data.display();
    let Some(endpoints) = gateway_dir::endpoint_dirs(data) else {
        return anyhow!(
            "no service runs in the data directory {shown}: start one with \"plimsoll serve\", or name the service with \
             --data DIR (PLIMSOLL_DATA) or --url URL (PLIMSOLL_URL)"
        );
    };
    let runs = |dir: &PathBuf| Announcement::read(dir).is_ok_and(|found| found.is_some());
    let served: Vec<_> =
        endpoints.iter().filter(|dir| runs(dir)).map(|dir| format!("--data {}", dir.display())).collect();
    let choice = match served.is_empty() {
        true => "none is served here: see \"plimsoll cluster status\"".to_owned(),
        false => format!("name one: {}", served.join(", ")),
    };
    anyhow!("{shown} belongs to a gateway, whose endpoints are services of their own; {choice}")
}

/// A URL without a slash at its end.
fn checked_url(url: &str) -> anyhow::Result<String> {
    if !is_url(url) {
        return Err(usage(format!("--url (PLIMSOLL_URL) is \"{}\"; allowed: {URL_ALLOWED}", printable(url))));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

fn is_private(error: &anyhow::Error) -> bool {
    let denied = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    error.root_cause().downcast_ref().is_some_and(denied)
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let text = read_secret(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => anyhow!(
            "you may not read {}: run as the user of the service, or get a token of your own (\"plimsoll \
             token create\") and give it with --token-file FILE or in the variable {TOKEN_VARIABLE}",
            path.display()
        ),
        ErrorKind::InvalidData => anyhow!("the token {}: {error}", path.display()),
        _ => anyhow!(
            "cannot read the token {}: {error}; give one with --token-file FILE or in the variable {TOKEN_VARIABLE}",
            path.display()
        ),
    })?;
    match text.trim() {
        "" => bail!("the token {} is empty; allowed: a token of \"plimsoll token create\"", path.display()),
        token => Ok(token.to_owned()),
    }
}

/// The message for an error of the client.
fn describe(error: Error, url: &str) -> anyhow::Error {
    match error {
        Error::Refused(problem) => {
            let message = match &problem.version {
                Some(_) => stale(&problem),
                None if problem.forceable => format!("{} (--force)", in_flags(&problem.detail)),
                None => in_flags(&problem.detail),
            };
            Refused { message, problem }.into()
        }
        Error::Unreachable(why) if why.contains("http parse fail") => {
            anyhow!(
                "the server does not answer in HTTP ({why}): an API with a certificate needs --url https://HOST:PORT"
            )
        }
        Error::Unreachable(why) if why.contains("lookup address") => {
            anyhow!("the host is not known ({why}): check --url")
        }
        Error::Unreachable(why) => anyhow!("no service answers ({why}): start it with \"plimsoll serve\""),
        Error::Untrusted { fault, .. } => {
            anyhow!("the certificate of {url} is not trusted: {fault}. {}", remedy(&fault))
        }
        Error::UnexpectedReply(what) => {
            anyhow!("the server at {url} is not a Plimsoll of this version: {what}")
        }
    }
}

/// Properties of the API by other names than those of the flags.
const FLAGS: [(&str, &str); 9] = [
    ("size_bytes", "--size"),
    ("rules", "--allow"),
    ("endpoints", "--endpoint"),
    ("labels", "--label"),
    ("declared", "--limit"),
    ("throughput_bytes_per_second", "--throughput"),
    ("operations_per_second", "--iops"),
    ("operations_per_second_per_tib", "--iops-per-tib"),
    ("name", "the name"),
];

/// Kinds of objects that have a list.
const LISTED: [&str; 7] = ["pool", "volume", "policy", "user", "group", "token", "operation"];

/// The message of the API with flags in place of JSON pointers and parameters.
fn in_flags(detail: &str) -> String {
    let flag = |property: &str| match FLAGS.iter().find(|(known, _)| *known == property) {
        Some((_, flag)) => (*flag).to_owned(),
        None => format!("--{}", property.replace('_', "-")),
    };
    if let Some((pointer, rest)) = detail.strip_prefix('/').and_then(|detail| detail.split_once([' ', ':'])) {
        let property = pointer.strip_prefix("settings/").unwrap_or(pointer).split('/').next();
        let separator = &detail[1 + pointer.len()..detail.len() - rest.len()];
        return format!("{}{separator}{rest}", flag(property.unwrap_or_default()));
    }
    let parameter = detail.strip_prefix("the parameter ").and_then(|rest| rest.split_once(" is unknown"));
    if let Some((name, _)) = parameter {
        return format!("{} has no effect on this command: leave it out", flag(name));
    }
    let missing = detail.strip_prefix("there is no ").and_then(|rest| rest.split_once(' '));
    match missing {
        Some(("snapshot", name)) => {
            let volume = name.split('/').next().unwrap_or_default();
            format!("{detail}; \"plimsoll snapshot list {}\" shows all", quoted(volume))
        }
        Some((kind, _)) if LISTED.contains(&kind) => format!("{detail}; \"plimsoll {kind} list\" shows all"),
        _ => detail.to_owned(),
    }
}

/// The message for a change that expected another version.
fn stale(problem: &Problem) -> String {
    let fact = problem.detail.trim_end_matches(": read it again");
    let look = problem.version.as_ref().map_or_else(String::new, |version| {
        // A snapshot's name has its volume's and a slash before it.
        let name = version.name.split('/').map(quoted).collect::<Vec<_>>().join(" ");
        format!("plimsoll {} show {name}", version.kind)
    });
    printable(&format!("{fact}: look at it again with \"{look}\""))
}

/// The advice for a certificate that is not trusted.
fn remedy(fault: &CertificateFault) -> &'static str {
    match fault {
        CertificateFault::UnknownIssuer => "Name the certificate of its CA with --ca FILE or PLIMSOLL_CA",
        CertificateFault::IsAuthority | CertificateFault::WrongPurpose => {
            "On the server, make a CA and a certificate with \"plimsoll tls init NAME\""
        }
        CertificateFault::WrongName(_) => {
            "Use one of its names in --url, or on the server \"plimsoll tls init --renew NAME\""
        }
        CertificateFault::Expired => "On the server, renew it with \"plimsoll tls init --renew\"",
        CertificateFault::NotYetValid => "Check the clocks of this machine and of the server",
        CertificateFault::Other(_) => "Make another one with \"plimsoll tls init NAME\"",
    }
}

impl Session {
    /// Asks the service, and returns its reply.
    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(&Client) -> api_client::Result<T>,
    ) -> anyhow::Result<T> {
        question(&self.client).map_err(|error| describe(error, &self.url))
    }

    pub(crate) fn form(&self) -> &Form {
        &self.form
    }

    /// The greatest width of a table; `None` for no limit.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.form.columns()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Prints a reply, as JSON or as `text`.
    pub(crate) fn show<T: Serialize>(
        &self,
        reply: &T,
        text: impl FnOnce(&T) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        self.form.show(reply, text)
    }

    /// Prints a list, as [`show`](Self::show) does.
    pub(crate) fn show_all<T: Serialize>(
        &self,
        items: Vec<T>,
        text: impl FnOnce(&[T]) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        self.show(&Page { items, next_page_token: None }, |page| text(&page.items))
    }

    /// The address of NFS, if the data directory has it.
    pub(crate) fn nfs(&self) -> Option<SocketAddr> {
        self.nfs
    }

    /// The address of SMB, if the data directory has it.
    pub(crate) fn smb(&self) -> Option<SocketAddr> {
        self.smb
    }

    /// The commands that mount a volume: one for each protocol at each of its addresses, with further `advised` options.
    pub(crate) fn mount_commands(&self, volume: &Volume, advised: &str) -> anyhow::Result<Vec<String>> {
        let targets = self.ask(|client| client.mount_targets(&volume.name))?.mount_targets;
        let command = |target: &MountTarget| {
            let address: Option<IpAddr> = target.address.as_ref().and_then(|text| text.parse().ok());
            let host = match (address.or(self.nfs.map(|nfs| nfs.ip())), self.nfs) {
                // The service is on another machine, and serves all its addresses.
                (Some(address), None) if address.is_unspecified() => self.host().to_owned(),
                (Some(address), _) => mounting::host(address),
                (None, _) => self.host().to_owned(),
            };
            let protocol = target.protocol.into();
            let options = mounting::with_advised(&target.options, advised);
            mounting::command(protocol, &options, &host, &target.path, volume.durability.to_value())
        };
        Ok(targets.iter().map(command).collect())
    }

    /// The host of the service's address.
    fn host(&self) -> &str {
        let (_, host) = self.url.split_once("://").unwrap_or(("", &self.url));
        host.rsplit_once(':').map_or(host, |(host, _)| host)
    }

    /// Prints the service's warnings that `concerns` selects on the standard error. The command itself has succeeded, so an
    /// error here is ignored.
    pub(crate) fn warn(&self, concerns: impl Fn(&Warning) -> bool) {
        for warning in self.client.warnings().unwrap_or_default().iter().filter(|warning| concerns(warning)) {
            terminal::warn(&advice(warning));
        }
    }
}

/// A warning, with the remedy.
pub(crate) fn advice(warning: &Warning) -> String {
    let text = printable(&warning.text);
    match (&warning.volume, warning.kind.as_str()) {
        (Some(volume), "no-rules") => {
            format!(
                "nobody may mount the volume {volume}: allow it with \"plimsoll volume access add {} --allow 10.1.0.0/16\"",
                quoted(volume)
            )
        }
        _ => text,
    }
}
