//! SMB at its port.

use crate::descriptors::Part;
use crate::mounting::{self, host, smb_target};
use crate::nfs_frontend::{Listen, TICK};
use crate::nodename::nodename;
use crate::periodic::Task;
use crate::{smb_users, state, volumes};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use identity::{ServerNames, SharedAccounts};
use nfs::handle::HandleSigner;
use smb::persistent::PersistentOpens;
use smb::server::{Server, Settings, View};
use smb::service::Service;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use vfs::{Namespace, SharedNamespace};

/// The address of SMB, and its users.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "SMB")]
pub(crate) struct SmbListen {
    /// Address and port for SMB; port 0 is any free one
    #[arg(long, default_value = "127.0.0.1:445", value_name = "ADDRESS:PORT", requires = "smb_users", value_parser = crate::listen_address::parse)]
    pub(crate) smb_listen: SocketAddr,
    /// Users that may log in over SMB: a TOML file with mode 600
    #[arg(long, value_name = "FILE")]
    pub(crate) smb_users: Option<PathBuf>,
    /// Names that clients call the service by, besides its address: logins meant for others are refused [default: any name]
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "smb_users",
        hide_short_help = true
    )]
    pub(crate) smb_names: Vec<String>,
    /// Allow anonymous logins. They can list shares but not open them
    #[arg(long, requires = "smb_users", hide_short_help = true)]
    pub(crate) smb_anonymous: bool,
    /// Whether a session may have several TCP connections (multichannel); off: AES-GMAC signs for all clients that offer it
    #[arg(long, default_value = "on", value_name = "on|off", requires = "smb_users", hide_short_help = true)]
    pub(crate) smb_multichannel: Switch,
}

/// A setting of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// Logins beside those of users, and the names by which clients may call the service. Without names, any name is
/// accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logins {
    pub(crate) names: Vec<String>,
    pub(crate) anonymous: bool,
}

/// The settings of the SMB server.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    /// The name of this server.
    pub(crate) host: String,
    pub(crate) logins: Logins,
    /// Opens of continuously available shares, kept from the last run to the next.
    pub(crate) opens: Option<PersistentOpens>,
    /// Whether a session may have several connections.
    pub(crate) multichannel: bool,
}

/// SMB for a namespace.
pub(crate) struct SmbFrontend {
    server: Server,
    service: Arc<Service>,
    address: SocketAddr,
    namespace: SharedNamespace,
}

impl SmbListen {
    /// The accounts that may log in.
    pub(crate) fn accounts(&self, signer: &HandleSigner) -> anyhow::Result<SharedAccounts> {
        let Some(users) = &self.smb_users else {
            bail!("SMB clients log in as a user: name a file of users with --smb-users")
        };
        smb_users::read(users, &ServerNames::for_host(&nodename()).netbios, signer)
    }

    pub(crate) fn logins(&self) -> Logins {
        Logins { names: self.smb_names.clone(), anonymous: self.smb_anonymous }
    }
}

impl SmbFrontend {
    /// Listens and starts to serve these users.
    pub(crate) fn start(
        namespace: SharedNamespace,
        accounts: SharedAccounts,
        serving: Serving,
        listen: &Listen,
        part: Part,
    ) -> anyhow::Result<Self> {
        let Serving { address: smb_listen, host, logins, opens, multichannel } = serving;
        if logins.names.iter().any(String::is_empty) {
            bail!("a name that SMB clients call the service by cannot be empty");
        }
        let listener = TcpListener::bind(smb_listen).with_context(|| {
            format!("cannot listen on {smb_listen} for SMB; choose another port with --smb-listen")
        })?;
        let address = listener.local_addr()?;
        let random = Box::new(state::must_random);
        let service = Service::new(Arc::clone(&namespace), ServerNames::for_host(&host), accounts, random);
        let service = service.with_networks(listen.ipv6_prefix.networks());
        let mut service = service
            .with_target_names(logins.names)
            .with_anonymous_logins(logins.anonymous)
            .with_multichannel(multichannel);
        if let Some(opens) = opens {
            service = service.with_persistent_opens(opens);
        }
        let restored = service.restore().context("cannot read what SMB clients had open")?;
        if restored > 0 {
            tracing::info!(
                opens = restored,
                "what clients had open of continuously available shares waits for them"
            );
        }
        let service = Arc::new(service);
        let settings = Settings {
            client_connections_max: listen.connections_per_client.get(),
            idle_s: smb::limits::IDLE_S,
            deadline: listen.deadline,
            keeps_connections: listen.keeps_connections,
            networks: listen.ipv6_prefix.networks(),
            ..part.settings(listen.threads())
        };
        let server = Server::start(Arc::clone(&service), vec![listener], settings)?;
        Ok(Self { server, service, address, namespace })
    }

    /// A look at the server.
    pub(crate) fn view(&self) -> View {
        self.server.view()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends sessions of deleted users, and tree connects to volumes that are no longer served.
    pub(crate) fn end_what_is_gone(&self) -> Task {
        let service = Arc::clone(&self.service);
        Task::new("sessions", TICK, move || service.expire())
    }

    /// The commands that mount what is served, a line each.
    pub(crate) fn commands_of(&self, namespace: &Namespace) -> String {
        let target = smb_target(self.address);
        let commands = namespace.exports().iter().map(|export| {
            let (host, durability) = (host(target.address), export.volume.durability());
            mounting::command(target.protocol, &target.options, &host, &export.path, durability) + "\n"
        });
        commands.collect()
    }

    /// Ends the service: no new calls, by the deadline answers to those in flight, everything on disk.
    pub(crate) fn stop(self, deadline: Instant) {
        self.server.stop(deadline.saturating_duration_since(Instant::now()));
        volumes::sync_all(&self.namespace.load());
    }
}
