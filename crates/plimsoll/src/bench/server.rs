//! The server's own view of a measurement, where the server is a service of ours.

use std::path::Path;

use anyhow::bail;
use api_client::Samples;
use api_client::model::{Ceilings, Rule, Volume};
use bench::machine::co_located;
use bench::observer::{Observer, Sample};
use bench::{Error, Target};
use envelope::PLAIN_WRITE_COST_THOUSANDTHS;
use report::result::{Durability, ExportRule, Limits, VolumeFacts};

use crate::announcement::Announcement;
use crate::manage::{ServiceArgs, Session};
use crate::{state, terminal};

/// Asks a service about the volume that is measured.
pub(crate) struct ServiceObserver {
    session: Session,
    volume: String,
}

/// An observer of the target, if the named service serves it. A service that only the environment names may belong to
/// other commands: then a note says that no service was asked. Without a name it is that of the default data directory,
/// as of all other commands, if the target has its address.
pub(crate) fn observe(service: &ServiceArgs, target: &Target) -> anyhow::Result<Option<ServiceObserver>> {
    if !service.is_named() {
        return Ok(local(&state::default_dir(), service, target));
    }
    match find(service, target) {
        Err(error) if service.is_from_environment() => {
            warn_unknown(target, &error);
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// An observer of the target, if it is served by the service in `data`.
fn local(data: &Path, service: &ServiceArgs, target: &Target) -> Option<ServiceObserver> {
    let announced = Announcement::read(data).ok()??;
    let served = if target.version.is_smb() { announced.smb? } else { announced.nfs };
    let address = target.address().ok()?;
    let is_its = served.port() == address.port()
        && (served.ip().is_unspecified() || served.ip() == address.ip())
        && co_located(address);
    if !is_its {
        return None;
    }
    let service = ServiceArgs { data: Some(data.to_owned()), ..service.clone() };
    let found = find(&service, target);
    found.map_err(|error| warn_unknown(target, &error)).ok()
}

fn warn_unknown(target: &Target, error: &anyhow::Error) {
    terminal::warn(&format!("limits and counters of {target} are not known: {error:#}"));
}

fn find(service: &ServiceArgs, target: &Target) -> anyhow::Result<ServiceObserver> {
    let session = service.open()?;
    let is_share = target.version.is_smb();
    let (protocol, served) = if is_share { ("SMB", session.smb()) } else { ("NFS", session.nfs()) };
    if let Some(served) = served.filter(|served| served.port() != target.port) {
        bail!(
            "the service at {} serves {protocol} at {served}, which {target} is not: name the service of the target, or none \
             (--data, --url, PLIMSOLL_DATA, PLIMSOLL_URL)",
            session.url()
        );
    }
    let volumes = session.ask(|client| client.volumes())?;
    if is_share {
        let (share, _) = target.share();
        let is_it = |volume: &&Volume| volume.share.to_lowercase() == share.to_lowercase();
        let Some(volume) = volumes.iter().find(is_it) else {
            bail!("the service at {} does not know the share {share} of {target}", session.url());
        };
        let volume = volume.name.clone();
        return Ok(ServiceObserver { session, volume });
    }
    // A directory below an export may be mounted as well; one volume's export may lie below another's.
    let above = volumes.iter().filter(|volume| is_at_or_below(&target.export, &volume.path));
    let Some(volume) = above.max_by_key(|volume| volume.path.len()) else {
        let paths: Vec<&str> = volumes.iter().map(|volume| volume.path.as_str()).collect();
        let has = if paths.is_empty() { "no volumes".to_owned() } else { paths.join(", ") };
        bail!(
            "the service at {} does not know the export {} of {target}; it has {has}",
            session.url(),
            target.export
        );
    };
    let volume = volume.name.clone();
    Ok(ServiceObserver { session, volume })
}

fn is_at_or_below(path: &str, export: &str) -> bool {
    path.strip_prefix(export).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl ServiceObserver {
    fn ask<T>(
        &self,
        question: impl FnOnce(&api_client::Client) -> api_client::Result<T>,
    ) -> Result<T, Error> {
        let failed = |error: anyhow::Error| Error::Io {
            doing: format!("ask the service about the volume {}", self.volume),
            source: std::io::Error::other(format!("{error:#}")),
        };
        self.session.ask(question).map_err(failed)
    }
}

impl Observer for ServiceObserver {
    fn facts(&mut self) -> Result<VolumeFacts, Error> {
        let volume = self.ask(|client| client.volume(&self.volume))?.value;
        let pool = self.ask(|client| client.pool(&volume.pool))?.value;
        let limits = self.ask(|client| client.stats(&self.volume))?.limits;
        let shape = limits.shape;
        Ok(VolumeFacts {
            version: self.ask(api_client::Client::version)?.version,
            name: volume.name,
            level: volume.level.unwrap_or(pool.level).to_string(),
            pool: pool.name,
            size_bytes: Some(volume.size_bytes),
            large: Some(volume.settings.large.unwrap_or(false)),
            profile: volume.settings.profile.map(|profile| profile.to_string()),
            shape: shape.map(|shape| shape.name.to_string()),
            shape_scale_thousandths: shape.map(|shape| shape.scale_thousandths),
            limits: self.sample()?.limits,
            write_cost_thousandths: Some(limits.write_cost_thousandths)
                .filter(|&cost| cost != PLAIN_WRITE_COST_THOUSANDTHS),
            client_limits: client_limits(&limits.per_client),
            durability: Some(match volume.durability {
                api_client::model::Durability::Sync => Durability::Sync,
                api_client::model::Durability::Relaxed => Durability::Relaxed,
            }),
            export: Some(volume.rules.into_iter().map(rule).collect()),
        })
    }

    fn sample(&mut self) -> Result<Sample, Error> {
        let samples = self.ask(api_client::Client::metrics)?;
        sample(&samples, &self.volume)
            .ok_or_else(|| Error::Protocol(format!("the service has no volume {} any more", self.volume)))
    }
}

fn client_limits(each: &Ceilings) -> Limits {
    Limits {
        bytes_per_s: each.bytes_per_second,
        read_bytes_per_s: each.read_bytes_per_second,
        write_bytes_per_s: each.write_bytes_per_second,
        iops: each.operations_per_second,
        read_iops: each.read_operations_per_second,
        write_iops: each.write_operations_per_second,
    }
}

fn rule(rule: Rule) -> ExportRule {
    let Rule { clients, access, squash, .. } = rule;
    ExportRule { clients, access: access.to_string(), squash: squash.to_string() }
}

/// The metrics of a volume; `None` if they do not have it.
fn sample(samples: &Samples, volume: &str) -> Option<Sample> {
    let own = [("volume", volume)];
    let pool = samples.of("plimsoll_volume_info", &own).next()?.label("pool")?;
    let count = |name: &str| samples.count(name, &own).unwrap_or_default();
    let bytes = |direction: &str| {
        let labels = [own[0], ("direction", direction)];
        samples.count("plimsoll_volume_bytes_total", &labels).unwrap_or_default()
    };
    Some(Sample {
        connections: count("plimsoll_volume_connections"),
        ops: count("plimsoll_volume_operations_total"),
        read_bytes: bytes("read"),
        write_bytes: bytes("write"),
        throttled_ops: count("plimsoll_volume_throttled_operations_total"),
        throttle_s: samples.sum("plimsoll_volume_throttle_seconds_total", &own).unwrap_or_default(),
        reads_from_memory: count("plimsoll_volume_reads_from_memory_total"),
        reads_from_storage: count("plimsoll_volume_reads_from_storage_total"),
        limits: limits(samples, volume, pool),
    })
}

/// The limits of a volume: its own, and those of its pool, which it may use alone.
fn limits(samples: &Samples, volume: &str, pool: &str) -> Limits {
    let limit = |unit: &str, direction: &str| {
        let of = |kind: &str, name: &str| {
            let family = format!("plimsoll_{kind}_limit_{unit}_per_second");
            samples.count(&family, &[(kind, name), ("direction", direction)])
        };
        let [own, shared] = [of("volume", volume), of("pool", pool)];
        own.into_iter().chain(shared).min()
    };
    Limits {
        bytes_per_s: limit("bytes", "all"),
        read_bytes_per_s: limit("bytes", "read"),
        write_bytes_per_s: limit("bytes", "write"),
        iops: limit("operations", "all"),
        read_iops: limit("operations", "read"),
        write_iops: limit("operations", "write"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, SmbConfig};
    use api_client::ChangeOptions;
    use api_client::model::{NewPool, NewVolume, Rule, Squash};
    use bench::load::{Op, Plan};
    use std::time::Duration;

    use crate::host::Host;
    use crate::lease::LeaseArgs;
    use crate::nfs_frontend::{CONNECTIONS_PER_CLIENT, IDLE_TIMEOUT, Listen};

    /// A service in this process, with the volumes `v1` and, without limits, `v2`.
    struct Running {
        dir: tempfile::TempDir,
        host: Host,
        api: api::Server,
    }

    impl Running {
        fn start() -> Self {
            let dir = crate::testing::private_dir();
            let any = "127.0.0.1:0".parse().unwrap();
            let listen = Listen {
                listen: any,
                mount_port: Some(0),
                portmap_port: None,
                no_portmap: true,
                register_rpcbind: false,
                rquota_port: None,
                threads: Some(1),
                connections_per_client: CONNECTIONS_PER_CLIENT,
                idle_timeout: IDLE_TIMEOUT,
                id_domain: None,
                ipv6_prefix: Default::default(),
                lease: LeaseArgs::default(),
                write_delegations: false,
                tls: Default::default(),
                deadline: Default::default(),
                keeps_connections: false,
            };
            let host =
                Host::start(dir.path(), &listen, &SmbConfig::default(), &Config::default().storage(), None)
                    .unwrap();
            api::bootstrap(&host.control, dir.path()).unwrap();
            let api = api::start(host.api_dependencies(), &api::Settings::new(any), None).unwrap();
            let url = format!("http://{}", api.local_addr());
            let nfs = host.frontend.address();
            Announcement { api: url, nfs, has_socket: false, smb: None, replication: None }
                .write(dir.path())
                .unwrap();
            let running = Self { dir, host, api };
            let session = running.named().open().unwrap();
            session.ask(make).unwrap();
            running
        }

        fn named(&self) -> ServiceArgs {
            at(self.dir.path())
        }

        fn target(&self, export: &str) -> Target {
            format!("nfs://{}{export}", self.host.frontend.address()).parse().unwrap()
        }

        fn stop(self) {
            self.api.stop(Duration::from_secs(1));
            self.host.stop();
        }
    }

    fn at(data: &Path) -> ServiceArgs {
        ServiceArgs { data: Some(data.to_owned()), ..ServiceArgs::default() }
    }

    fn make(client: &api_client::Client) -> api_client::Result<()> {
        let rule = Rule { squash: Squash::None, ..Rule::for_clients(vec!["127.0.0.1".to_owned()]) };
        let new = |name: &str, pool: &str| NewVolume {
            rules: Some(vec![rule.clone()]),
            ..NewVolume::new(name, pool, 1 << 40)
        };
        client.create_pool(&NewPool::new("p1", envelope::Level::AnfUltra, 4 << 40))?;
        let mut shaped = new("v1", "p1");
        let shape = envelope::Shape::all().next().unwrap();
        shaped.durability = Some(api_client::model::Durability::Relaxed);
        shaped.settings.shape = Some(envelope::Shaping { shape, scale_thousandths: 250 }.into());
        client.create_volume(&ChangeOptions::none(), &shaped)?;
        client.create_pool(&NewPool::new("p2", envelope::Level::Unlimited, 4 << 40))?;
        client.create_volume(&ChangeOptions::none(), &new("v2", "p2"))?;
        Ok(())
    }

    #[test]
    fn a_service_tells_of_the_volume_behind_a_target() {
        let running = Running::start();
        let observe = |export: &str| observe(&running.named(), &running.target(export));
        let mut observer = observe("/v1/some/directory").unwrap().unwrap();
        let limits = Limits { bytes_per_s: Some(128 << 20), ..Limits::default() };
        let facts = VolumeFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: "v1".to_owned(),
            pool: "p1".to_owned(),
            level: "anf/ultra".to_owned(),
            size_bytes: Some(1 << 40),
            large: Some(false),
            profile: None,
            shape: Some(envelope::Shape::all().next().unwrap().to_string()),
            shape_scale_thousandths: Some(250),
            limits,
            write_cost_thousandths: None,
            client_limits: Limits::default(),
            durability: Some(Durability::Relaxed),
            export: Some(vec![ExportRule {
                clients: vec!["127.0.0.1".to_owned()],
                access: "read-write".to_owned(),
                squash: "none".to_owned(),
            }]),
        };
        assert_eq!(observer.facts().unwrap(), facts);
        assert_eq!(observer.sample().unwrap(), Sample { limits, ..Sample::default() });

        let mut observer = observe("/v2").unwrap().unwrap();
        let plan = Plan {
            size: 1 << 20,
            time: Duration::from_secs(1),
            warm_up: Duration::ZERO,
            ..Plan::new(running.target("/v2"), Op::Read)
        };
        let report = bench::load::run(&plan, &mut |_| Ok(())).unwrap();
        let sample = observer.sample().unwrap();
        assert_eq!((sample.write_bytes, sample.limits), (1 << 20, Limits::default()));
        assert!(report.ops > 0 && sample.reads_from_memory >= report.ops, "{sample:?} {}", report.ops);
        assert_eq!(sample.read_bytes, (sample.reads_from_memory + sample.reads_from_storage) * plan.block);
        running.stop();
    }

    #[test]
    fn without_a_service_nobody_is_asked_and_the_wrong_one_is_refused() {
        let running = Running::start();
        let target = running.target("/v1");
        assert!(observe(&ServiceArgs::default(), &target).unwrap().is_none());
        let refusal = |service: &ServiceArgs, target: &Target| match observe(service, target) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("accepted"),
        };
        let error = refusal(&running.named(), &running.target("/v3"));
        assert!(
            error.contains("does not know the export /v3") && error.ends_with("it has /v1, /v2"),
            "{error}"
        );
        let elsewhere = "nfs://127.0.0.1:1/v1".parse().unwrap();
        let error = refusal(&running.named(), &elsewhere);
        assert!(error.contains("serves NFS at 127.0.0.1:") && error.contains("--data"), "{error}");
        let nowhere = crate::testing::private_dir();
        assert!(refusal(&at(nowhere.path()), &target).contains("no service runs in the data directory"));
        let mut observer = observe(&running.named(), &target).unwrap().unwrap();
        observer.session.ask(|client| client.delete_volume(&ChangeOptions::none(), "v1")).unwrap();
        assert!(observer.sample().unwrap_err().to_string().contains("no volume v1 any more"));
        running.stop();
        let error = observer.sample().unwrap_err().to_string();
        assert!(error.starts_with("ask the service about the volume v1: no service answers"), "{error}");
    }

    #[test]
    fn service_of_the_default_directory_is_found_by_the_address_of_its_target() {
        let running = Running::start();
        let found = |target: &Target| local(running.dir.path(), &ServiceArgs::default(), target);
        assert_eq!(found(&running.target("/v1")).unwrap().facts().unwrap().name, "v1");
        assert!(found(&"nfs://127.0.0.1:1/v1".parse().unwrap()).is_none(), "another port");
        assert!(found(&running.target("/v3")).is_none(), "not a volume of the service");
        let nowhere = crate::testing::private_dir();
        assert!(local(nowhere.path(), &ServiceArgs::default(), &running.target("/v1")).is_none());
        running.stop();
    }

    #[test]
    fn a_volume_is_told_from_others_and_has_the_lower_of_two_limits() {
        let text = r#"
plimsoll_volume_info{volume="v",pool="p",state="ready"} 1
plimsoll_volume_info{volume="w",pool="q",state="ready"} 1
plimsoll_volume_operations_total{volume="v",direction="read"} 5
plimsoll_volume_operations_total{volume="v",direction="write"} 3
plimsoll_volume_operations_total{volume="v",direction="other"} 1
plimsoll_volume_operations_total{volume="w",direction="read"} 100
plimsoll_volume_bytes_total{volume="v",direction="read"} 20480
plimsoll_volume_bytes_total{volume="v",direction="write"} 12288
plimsoll_volume_reads_from_memory_total{volume="v"} 4
plimsoll_volume_reads_from_storage_total{volume="v"} 1
plimsoll_volume_connections{volume="v"} 16
plimsoll_volume_throttled_operations_total{volume="v",direction="read"} 2
plimsoll_volume_throttled_operations_total{volume="v",direction="write"} 1
plimsoll_volume_throttle_seconds_total{volume="v",direction="read"} 0.250000000
plimsoll_volume_throttle_seconds_total{volume="v",direction="write"} 0.500000000
plimsoll_volume_limit_bytes_per_second{volume="v",direction="all"} 1048576
plimsoll_volume_limit_bytes_per_second{volume="w",direction="all"} 1
plimsoll_pool_limit_bytes_per_second{pool="p",direction="all"} 2097152
plimsoll_pool_limit_bytes_per_second{pool="q",direction="all"} 2
plimsoll_pool_limit_operations_per_second{pool="p",direction="read"} 900
"#;
        let samples: Samples = text.parse().unwrap();
        let limits = Limits { bytes_per_s: Some(1 << 20), read_iops: Some(900), ..Limits::default() };
        let wanted = Sample {
            connections: 16,
            ops: 9,
            read_bytes: 20_480,
            write_bytes: 12_288,
            throttled_ops: 3,
            throttle_s: 0.75,
            reads_from_memory: 4,
            reads_from_storage: 1,
            limits,
        };
        assert_eq!(sample(&samples, "v"), Some(wanted));
        assert_eq!(sample(&samples, "x"), None);
    }

    #[test]
    fn an_export_has_what_lies_below_it() {
        for (path, export, is_so) in [
            ("/v1", "/v1", true),
            ("/v1/", "/v1", true),
            ("/v1/a/b", "/v1", true),
            ("/v10", "/v1", false),
            ("/v", "/v1", false),
        ] {
            assert_eq!(is_at_or_below(path, export), is_so, "{path} {export}");
        }
    }
}
