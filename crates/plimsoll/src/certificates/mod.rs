//! `plimsoll tls`: certificates for servers and clients, from a certificate authority of one's own.

mod authority;

use anyhow::{Context, bail, ensure};
use authority::{Authority, ISSUED_DAYS, Issued, Purpose, check_name, date, names_of, new_key};
use clap::{Args, Subcommand};
use rcgen::KeyPair;
use stable::files;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::terminal::print;

const AUTHORITY: &str = "ca.pem";
const AUTHORITY_KEY: &str = "ca.key";
const SERVER: &str = "server.pem";
const SERVER_KEY: &str = "server.key";
const CLIENT: &str = "client.pem";
const CLIENT_KEY: &str = "client.key";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a certificate authority and a certificate for the service.
    #[command(after_help = "Examples:
  plimsoll tls init files.example.org 10.0.0.5
  plimsoll tls init files.example.org --dir /etc/plimsoll/tls
  plimsoll tls init --renew --dir /etc/plimsoll/tls

The command creates ca.pem, ca.key, server.pem and server.key. The CA is valid for 10 years, the certificate for 825 days. \
The keys are EC P-256 and have mode 600. Existing files are not replaced; --renew issues a new server.pem by the same CA.")]
    Init(InitArgs),
    /// Create a certificate with which a client proves its identity (mutual TLS).
    #[command(after_help = "Example:
  plimsoll tls client web1.example.org --dir /etc/plimsoll/tls --output web1

The command creates client.pem and client.key by the CA of \"plimsoll tls init\". They are valid for 825 days.")]
    Client(ClientArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Names and IP addresses by which clients know the service; with --renew by default those of the last certificate
    #[arg(value_name = "NAME", required_unless_present = "renew")]
    names: Vec<String>,
    /// Directory for the files; it is created if needed
    #[arg(long, value_name = "DIR", default_value = "tls")]
    dir: PathBuf,
    /// Issue a new server certificate by the existing CA
    #[arg(long)]
    renew: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Name of the client
    name: String,
    /// Directory with the CA
    #[arg(long, value_name = "DIR", default_value = "tls")]
    dir: PathBuf,
    /// Directory for the files; it is created if needed [default: that of the CA]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// The files of a service with a certificate.
pub(crate) struct ServerFiles {
    /// The authority that issues certificates of clients.
    pub(crate) authority: Option<PathBuf>,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let now = SystemTime::now();
    match command {
        Command::Init(args) if args.renew => print(&renew(&args.dir, &args.names, now)?),
        Command::Init(args) => print(&init(&args.dir, &args.names, now)?),
        Command::Client(args) => print(&client(args, now)?),
    }
}

/// The files of an authority and a server certificate in `dir`. They are created if none of them exists, and the certificate
/// is renewed if it is not for all these names.
pub(crate) fn create(dir: &Path, names: &[String]) -> anyhow::Result<ServerFiles> {
    let all = [AUTHORITY, AUTHORITY_KEY, SERVER, SERVER_KEY];
    let (present, absent): (Vec<&str>, Vec<&str>) = all.iter().partition(|name| dir.join(name).exists());
    let now = SystemTime::now();
    if present.is_empty() {
        init(dir, names, now)?;
    } else if absent.is_empty() {
        let earlier = read(&dir.join(SERVER)).and_then(|text| names_of(&text))?;
        if !names.iter().all(|name| earlier.contains(name)) {
            renew(dir, &with_earlier(names, earlier), now)?;
        }
    } else {
        bail!(
            "nothing was changed: {} has {} from before, but not {}. Move what is there elsewhere for new certificates, or \
             name files by --tls-cert and --tls-key",
            dir.display(),
            present.join(", "),
            absent.join(", ")
        );
    }
    ServerFiles::in_dir(dir)
}

fn with_earlier(names: &[String], earlier: Vec<String>) -> Vec<String> {
    let more = earlier.into_iter().filter(|name| !names.contains(name));
    names.iter().cloned().chain(more).collect()
}

fn init(dir: &Path, names: &[String], now: SystemTime) -> anyhow::Result<String> {
    check_names(names)?;
    for name in [AUTHORITY, AUTHORITY_KEY, SERVER, SERVER_KEY] {
        let path = dir.join(name);
        ensure!(
            !path.exists(),
            "nothing was created: {} exists. Use --renew for a new server certificate, or choose another --dir",
            path.display()
        );
    }
    make_dir(dir)?;
    let host = names.first().map_or("this host", String::as_str);
    let (authority, own, key) = Authority::create(host, now)?;
    write_new(&dir.join(AUTHORITY_KEY), files::PRIVATE, &key)?;
    write_new(&dir.join(AUTHORITY), files::PUBLIC, &own.certificate)?;
    let key = new_key()?;
    write_new(&dir.join(SERVER_KEY), files::PRIVATE, &key.serialize_pem())?;
    let issued = authority.issue(Purpose::Server, names, &key, now)?;
    write_new(&dir.join(SERVER), files::PUBLIC, &issued.certificate)?;
    let mut text = format!("Created in {}:\n", dir.display());
    _ = writeln!(text, "  {AUTHORITY}      the CA, for clients; valid until {}", date(own.not_after));
    _ = writeln!(
        text,
        "  {AUTHORITY_KEY}      its private key, which issues certificates: keep it secret, and keep a copy elsewhere"
    );
    text += &server_lines(names, &issued);
    let files = ServerFiles::in_dir(dir)?;
    Ok(text + &advice(&files, &dir.canonicalize()?.join(AUTHORITY), names))
}

fn renew(dir: &Path, names: &[String], now: SystemTime) -> anyhow::Result<String> {
    check_names(names)?;
    let authority = open(dir, now)?;
    let path = dir.join(SERVER);
    let names = match names.is_empty() {
        false => names.to_owned(),
        true => {
            let last = read(&path).and_then(|text| names_of(&text));
            last.with_context(|| format!("the names in {}; or give them to the command", path.display()))?
        }
    };
    // The same key: the service reads two files, and would see a new key with an old certificate for a moment.
    let key_path = dir.join(SERVER_KEY);
    let key = if key_path.exists() {
        KeyPair::from_pem(&secret(&key_path)?).with_context(|| format!("the key {}", key_path.display()))?
    } else {
        let key = new_key()?;
        write_new(&key_path, files::PRIVATE, &key.serialize_pem())?;
        key
    };
    let issued = authority.issue(Purpose::Server, &names, &key, now)?;
    let draft = dir.join(format!("{SERVER}.new"));
    files::replace(&path, &draft, files::PUBLIC, &[issued.certificate.as_bytes()])
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(format!(
        "Renewed in {}:\n{}\nA running service uses it for NFS within a second, for the API after a restart.\n",
        dir.display(),
        server_lines(&names, &issued)
    ))
}

fn client(args: &ClientArgs, now: SystemTime) -> anyhow::Result<String> {
    let name = args.name.as_str();
    check_name(name)?;
    let authority = open(&args.dir, now)?;
    let dir = args.output.as_deref().unwrap_or(&args.dir);
    make_dir(dir)?;
    let (certificate, key_path) = (dir.join(CLIENT), dir.join(CLIENT_KEY));
    for path in [&certificate, &key_path] {
        ensure!(
            !path.exists(),
            "nothing was created: {} exists. Choose another directory with --output",
            path.display()
        );
    }
    let key = new_key()?;
    let issued = authority.issue(Purpose::Client, &[name.to_owned()], &key, now)?;
    write_new(&key_path, files::PRIVATE, &key.serialize_pem())?;
    write_new(&certificate, files::PUBLIC, &issued.certificate)?;
    let until = date(issued.not_after);
    Ok(format!(
        "Created in {}:\n  {CLIENT}  certificate of {name}; valid until {until} ({ISSUED_DAYS} days at most)\n  {CLIENT_KEY}  \
         its key\n\nCopy both files and {AUTHORITY} to the client, and name them in its /etc/tlshd.conf.\n",
        dir.display()
    ))
}

fn open(dir: &Path, now: SystemTime) -> anyhow::Result<Authority> {
    let (certificate, key) = (dir.join(AUTHORITY), dir.join(AUTHORITY_KEY));
    if !certificate.exists() {
        bail!("there is no CA in {}: create one with \"plimsoll tls init NAME\"", dir.display());
    }
    let opened = Authority::open(&read(&certificate)?, &secret(&key)?, now);
    opened.with_context(|| format!("cannot use the CA {}", certificate.display()))
}

fn server_lines(names: &[String], issued: &Issued) -> String {
    let until = date(issued.not_after);
    let names = names.join(", ");
    format!(
        "  {SERVER}  certificate for {names}; valid until {until} ({ISSUED_DAYS} days at most)\n  {SERVER_KEY}  its key\n"
    )
}

/// The lines for the configuration, and the further steps.
fn advice(files: &ServerFiles, authority: &Path, names: &[String]) -> String {
    let name = names.first().map_or("HOST", String::as_str);
    let host = if name.contains(':') { format!("[{name}]") } else { name.to_owned() };
    let ServerFiles { certificate, key, .. } = files;
    format!(
        "
In the configuration, for NFS over TLS:
  [nfs.tls]
  mode = \"allow\"
  certificate = {certificate:?}
  key = {key:?}
  client_ca = {authority:?}

and for the API from other machines:
  [api]
  listen = \"0.0.0.0:2050\"
  url = \"https://{host}:2050\"
  certificate = {certificate:?}
  key = {key:?}

Commands trust the service with --ca {authority} or PLIMSOLL_CA={authority}.
NFS clients trust it with x509.truststore = {AUTHORITY} in /etc/tlshd.conf.
Before the certificate expires: plimsoll tls init --renew --dir {dir}
",
        authority = authority.display(),
        dir = authority.parent().unwrap_or(Path::new(".")).display(),
    )
}

impl ServerFiles {
    /// A certificate that another authority has issued.
    pub(crate) fn of(certificate: PathBuf, key: PathBuf) -> Self {
        Self { authority: None, certificate, key }
    }

    fn in_dir(dir: &Path) -> anyhow::Result<Self> {
        let dir = dir.canonicalize().with_context(|| format!("cannot use {}", dir.display()))?;
        let [authority, certificate, key] = [AUTHORITY, SERVER, SERVER_KEY].map(|name| dir.join(name));
        Ok(Self { authority: Some(authority), certificate, key })
    }
}

fn check_names(names: &[String]) -> anyhow::Result<()> {
    names.iter().try_for_each(|name| check_name(name))
}

/// Others may list the directory, because ca.pem is for them.
fn make_dir(dir: &Path) -> anyhow::Result<()> {
    let made = files::make_dirs(dir, files::PUBLIC_DIR);
    made.with_context(|| format!("cannot create the directory {}", dir.display()))?;
    files::check_dir(dir).with_context(|| format!("cannot use the directory {}", dir.display()))
}

fn write_new(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    let written = files::create_new(path, mode).and_then(|mut file| {
        std::io::Write::write_all(&mut file, text.as_bytes()).and_then(|()| file.sync_all())
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn secret(path: &Path) -> anyhow::Result<String> {
    files::read_secret(path).with_context(|| format!("cannot read {}", path.display()))
}
