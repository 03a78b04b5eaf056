//! Tokens, roles, TLS, and where the interface listens.

use crate::raw::ask;
use crate::rig::{Rig, refused, service};
use api::{Dependencies, Settings, Tls};
use api_client::model::{NewPool, NewToken, Role};
use api_client::{CertificateFault, ChangeOptions, Client, Error, Target};
use envelope::Level;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use vfs::SharedNamespace;

fn pool(name: &str) -> NewPool {
    NewPool::new(name, Level::Unlimited, 1 << 40)
}

#[test]
fn the_first_token_is_for_its_owner_alone_and_made_once() {
    let rig = Rig::start();
    let path = rig.dir.path().join(api_client::ADMIN_TOKEN_FILE);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(api::bootstrap(&rig.service, rig.dir.path()).unwrap(), None);
    assert_eq!(rig.client().tokens().unwrap().len(), 1);
    // Used and its file removed: an operator's doing, so there is no new one.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(api::bootstrap(&rig.service, rig.dir.path()).unwrap(), None);
    assert!(!path.exists());
}

#[test]
fn a_first_token_that_never_got_into_its_file_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(dir.path(), &SharedNamespace::default(), &Arc::default());
    let path = api::bootstrap(&service, dir.path()).unwrap().unwrap();
    let lost = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(dir.path().join("admin.token.new"), "half").unwrap();
    assert_eq!(api::bootstrap(&service, dir.path()).unwrap(), Some(path.clone()));
    let new = std::fs::read_to_string(&path).unwrap();
    assert!(service.check_token(lost.trim()).unwrap().is_none());
    assert!(service.check_token(new.trim()).unwrap().is_some());
}

#[test]
fn without_a_token_there_is_only_the_state_and_the_description() {
    let rig = Rig::start();
    let status = |path: &str| {
        let reply = ask(&rig, format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
        (reply.split(' ').nth(1).unwrap().to_owned(), reply)
    };
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(status(path).0, "200", "{path}");
    }
    for path in ["/metrics", "/v1/pools", "/v1/version", "/v1/tokens", "/v1/volumes/x/stats"] {
        let (status, reply) = status(path);
        assert_eq!(status, "401", "{path}");
        assert!(reply.contains("www-authenticate: Bearer realm=\"plimsoll\""), "{reply}");
    }
    let open = Rig::with(|settings| settings.open_metrics = true);
    let reply = ask(&open, "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    rig.plane.is_stopping.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(status("/readyz").0, "503");
    assert_eq!(status("/healthz").0, "200");
}

#[test]
fn roles_hold_for_every_operation() {
    let rig = Rig::start();
    let admin = rig.client();
    let token = |name: &str, role| {
        rig.client_with(&admin.create_token(&NewToken { name: name.to_owned(), role }).unwrap().secret)
    };
    let (read, operate) = (token("reader", Role::Read), token("operator", Role::Operate));
    assert_eq!(refused(read.create_pool(&pool("p"))), (403, "forbidden".to_owned()));
    operate.create_pool(&pool("p")).unwrap();
    assert_eq!(read.pools().unwrap().len(), 1);
    let capacity = read.metrics().unwrap().sum("plimsoll_pool_capacity_bytes", &[("pool", "p")]);
    assert_eq!(capacity, Some(1_099_511_627_776.0));
    assert_eq!(refused(read.delete_pool(&ChangeOptions::none(), "p")).0, 403);
    assert_eq!(refused(operate.tokens()).0, 403);
    assert_eq!(refused(operate.create_token(&NewToken { name: "x".into(), role: Role::Read })).0, 403);
    assert_eq!(operate.operations(1).unwrap()[0].actor, "operator");
    // A name is taken once.
    let again = admin.create_token(&NewToken { name: "reader".into(), role: Role::Admin });
    assert_eq!(refused(again).0, 409);
    admin.revoke_token("reader").unwrap();
    assert_eq!(refused(read.pools()).0, 401);
    assert_eq!(refused(admin.revoke_token("reader")).0, 404);
    assert_eq!(refused(admin.revoke_token("admin")), (409, "own-token".to_owned()));
    let names: Vec<String> = admin.tokens().unwrap().into_iter().map(|token| token.name).collect();
    assert_eq!(names, ["admin", "operator"]);
}

#[test]
fn every_operation_asks_for_its_token_before_anything_else() {
    let rig = Rig::start();
    let reader =
        rig.client().create_token(&NewToken { name: "reader".into(), role: Role::Read }).unwrap().secret;
    let mut asked = 0;
    for (path, operations) in api::openapi()["paths"].as_object().unwrap() {
        let path = path.replace("{provider}", "anf").replace("{level}", "premium").replace("{id}", "1");
        let path = path.replace("{name}", "x").replace("{user}", "y");
        for (method, operation) in operations.as_object().unwrap() {
            let status = |authorization: &str| {
                let method = method.to_uppercase();
                let request = format!(
                    "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{authorization}\r\n"
                );
                ask(&rig, request).split(' ').nth(1).unwrap().to_owned()
            };
            let needs_token = !operation["security"].as_array().unwrap().is_empty();
            let described = operation["description"].as_str().unwrap();
            let needs_more = described.contains("the role operate") || described.contains("the role admin");
            assert_eq!(status("") == "401", needs_token, "{method} {path}");
            let with_reader = status(&format!("authorization: Bearer {reader}\r\n"));
            assert_eq!(with_reader == "403", needs_more, "{method} {path}");
            asked += 1;
        }
    }
    assert!(asked >= 25, "{asked}");
}

#[test]
fn guessing_is_slowed_down_and_nobody_else_is() {
    let rig = Rig::start();
    let right = rig.client();
    right.version().unwrap();
    let statuses: Vec<u16> =
        (0..60).map(|number| refused(rig.client_with(&format!("plimsoll_{number}")).version()).0).collect();
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "{statuses:?}");
    right.version().unwrap();
}

#[test]
fn listening_beyond_loopback_needs_a_token_and_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let (namespace, plane) = (SharedNamespace::default(), Arc::default());
    let service = service(dir.path(), &namespace, &plane);
    let start = |settings: &Settings| {
        let dependencies = Dependencies {
            service: Arc::clone(&service),
            plane: Arc::clone(&plane) as _,
            namespace: Arc::clone(&namespace),
        };
        api::start(dependencies, settings, None)
    };
    let everywhere = Settings::new("0.0.0.0:0".parse().unwrap());
    let tls = Settings { tls: Some(certificate().0), ..everywhere.clone() };
    let refusal = |settings: &Settings| {
        let error = start(settings).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(refusal(&everywhere).contains("without a certificate and a token"));
    assert!(refusal(&tls).contains("without a token"));
    api::bootstrap(&service, dir.path()).unwrap();
    assert!(refusal(&everywhere).contains("without a certificate"));
    assert!(refusal(&Settings::new("[::]:0".parse().unwrap())).contains("listen on 127.0.0.1"));
    start(&tls).unwrap();
    start(&Settings { allow_insecure: true, ..everywhere }).unwrap();
}

/// A certificate for 127.0.0.1 that nobody else trusts.
fn certificate() -> (Tls, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = made.cert.pem().into_bytes();
    let tls = Tls { certificates: certificate.clone(), key: made.signing_key.serialize_pem().into_bytes() };
    (tls, certificate)
}

#[test]
fn tls_is_for_those_who_trust_its_issuer() {
    let (tls, issuer) = certificate();
    let rig = Rig::with(|settings| settings.tls = Some(tls));
    let target = |issuers, url: String| Target { url, token: rig.token.clone(), issuers, socket: None };
    let trusting = Client::new(&target(Some(issuer), rig.server.url())).unwrap();
    assert_eq!(trusting.version().unwrap().api, "v1");
    trusting.create_pool(&pool("p")).unwrap();
    let doubting = Client::new(&target(None, rig.server.url())).unwrap();
    let is_unknown =
        |error| matches!(error, Err(Error::Untrusted { fault: CertificateFault::UnknownIssuer, .. }));
    assert!(is_unknown(doubting.version()));
    let (_, other) = certificate();
    let mistaken = Client::new(&target(Some(other), rig.server.url())).unwrap();
    assert!(matches!(mistaken.version(), Err(Error::Untrusted { .. })));
    let plain = Client::new(&target(None, rig.server.url().replace("https", "http"))).unwrap();
    assert!(matches!(plain.version(), Err(Error::Unreachable(_))));
}

#[test]
fn bad_certificates_are_said_to_be_bad() {
    let (good, _) = certificate();
    let (other, _) = certificate();
    let dir = tempfile::tempdir().unwrap();
    let (namespace, plane) = (SharedNamespace::default(), Arc::default());
    let service = service(dir.path(), &namespace, &plane);
    for (certificates, key) in [
        (b"nonsense".to_vec(), good.key.clone()),
        (good.certificates.clone(), b"nonsense".to_vec()),
        (good.certificates.clone(), other.key.clone()),
    ] {
        let settings = Settings {
            tls: Some(Tls { certificates, key }),
            ..Settings::new("127.0.0.1:0".parse().unwrap())
        };
        let dependencies = Dependencies {
            service: Arc::clone(&service),
            plane: Arc::clone(&plane) as _,
            namespace: Arc::clone(&namespace),
        };
        let error = api::start(dependencies, &settings, None).err().unwrap().to_string();
        assert!(error.contains("the TLS "), "{error}");
    }
}
